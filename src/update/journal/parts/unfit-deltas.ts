import * as z from 'zod';

/** Versions, by id, of which the service gave a delta that did not fit what runs: they are wanted whole. */
export const unfitDeltas = z.object({
  /** The oldest first. */
  versions: z.array(z.string()),
  /** The service knows, where a property is configured to tell it. */
  told: z.boolean(),
});

export type UnfitDeltas = z.infer<typeof unfitDeltas>;

const MAX_UNFIT = 8;

export function isUnfit({ unfit }: { readonly unfit?: UnfitDeltas | undefined }, versionId: string): boolean {
  return unfit?.versions.includes(versionId) === true;
}

export function withUnfit(unfit: UnfitDeltas | undefined, versionId: string): UnfitDeltas {
  const others = unfit?.versions.filter((id) => id !== versionId) ?? [];
  return { versions: [...others, versionId].slice(-MAX_UNFIT), told: false };
}

/** Something else runs, which the next delta may fit. */
export function withoutUnfit(unfit: UnfitDeltas | undefined): UnfitDeltas | undefined {
  return unfit === undefined || unfit.versions.length === 0 ? unfit : { versions: [], told: false };
}

/** The service knows: what it was told is kept for as long as it is wanted. */
export function toldUnfit(unfit: UnfitDeltas | undefined): UnfitDeltas | undefined {
  return unfit === undefined || unfit.versions.length === 0 ? undefined : { ...unfit, told: true };
}
