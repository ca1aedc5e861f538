/** The classes of points, in the order in which they are kept and sent. */
export const pointClasses = ['urgent', 'normal', 'bulk'] as const;

export type PointClass = (typeof pointClasses)[number];

/**
 * When something was measured. `given`: stated by the caller and kept as it is. `known`: by a clock that was set.
 * `since-boot`: the clock was not set; the time is computed when it is.
 */
export type PointTime =
  | { readonly kind: 'given'; readonly atMs: number }
  | { readonly kind: 'known'; readonly atMs: number }
  | { readonly kind: 'since-boot' };

export interface NewPoint {
  readonly event: string;
  readonly class: PointClass;
  readonly value: unknown;
  readonly time: PointTime;
}

/** The approximate size of a point without its value, in memory and on disk. */
export const pointOverheadBytes = 32;

export function pointBytes(text: string): number {
  return Buffer.byteLength(text) + pointOverheadBytes;
}
