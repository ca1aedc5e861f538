import * as z from 'zod';

/** Versions whose delta did not fit what runs, by id: they are wanted whole. */
export const unfitDeltas = z.object({
  /** The oldest first. */
  versions: z.array(z.string()),
  /** The service knows, if a property is configured to tell it. */
  told: z.boolean(),
});

export type RejectedDeltas = z.infer<typeof unfitDeltas>;

const MAX_UNFIT = 8;

export function isRejected({ unfit }: { readonly unfit?: RejectedDeltas | undefined }, versionId: string): boolean {
  return unfit?.versions.includes(versionId) === true;
}

export function withUnfit(unfit: RejectedDeltas | undefined, versionId: string): RejectedDeltas {
  const others = unfit?.versions.filter((id) => id !== versionId) ?? [];
  return { versions: [...others, versionId].slice(-MAX_UNFIT), told: false };
}

/** The entry after something else was installed, which the next delta may fit. */
export function withoutUnfit(unfit: RejectedDeltas | undefined): RejectedDeltas | undefined {
  return unfit === undefined || unfit.versions.length === 0 ? unfit : { versions: [], told: false };
}

/** The entry after the service was told. What it was told is kept as long as it is wanted. */
export function toldUnfit(unfit: RejectedDeltas | undefined): RejectedDeltas | undefined {
  return unfit === undefined || unfit.versions.length === 0 ? undefined : { ...unfit, told: true };
}
