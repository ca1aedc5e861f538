/** The time during which a key is valid, in milliseconds since the epoch. A missing member means no bound. */
export interface KeyLifetime {
  readonly notBeforeMs?: number | undefined;
  readonly notAfterMs?: number | undefined;
}

/** The known time on a gateway whose clock may not be set. */
export interface KnownTime {
  /** A lower bound of the present time, from the service or a trusted key. Undefined if neither stated one. */
  readonly atLeastMs: number | undefined;
  /** The present time by a clock that a time server has set. Undefined without such a clock. */
  readonly nowMs: number | undefined;
}

/** `unknown`: the key has a beginning or an end, and the present time is too uncertain. */
export type KeyValidity = 'valid' | 'not-yet' | 'expired' | 'unknown';

/**
 * Guarantee `revocation`: a key has expired only if its end has certainly passed, and is not yet valid only by a clock
 * that was set. An unsynchronized clock decides nothing, since it could block a gateway's updates forever.
 */
export function validityOf({ notBeforeMs, notAfterMs }: KeyLifetime, { atLeastMs, nowMs }: KnownTime): KeyValidity {
  const known = [atLeastMs, nowMs].filter((time) => time !== undefined);
  const latestKnownMs = Math.max(...known);
  if (notAfterMs !== undefined && latestKnownMs >= notAfterMs) return 'expired';
  const hasBegun = notBeforeMs === undefined || latestKnownMs >= notBeforeMs;
  if (nowMs !== undefined) return hasBegun ? 'valid' : 'not-yet';
  return hasBegun && notAfterMs === undefined ? 'valid' : 'unknown';
}
