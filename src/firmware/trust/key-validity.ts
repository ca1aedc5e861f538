/** The time during which a key is valid, in milliseconds since the epoch; undefined: no bound. */
export interface KeyLifetime {
  readonly notBeforeMs?: number | undefined;
  readonly notAfterMs?: number | undefined;
}

/** What is known of the time on a gateway whose clock may not be set. */
export interface KnownTime {
  /** The present time is later than this, as the service or a trusted key said. Undefined: nobody did. */
  readonly atLeastMs: number | undefined;
  /** The present time by a clock that a time server has set; undefined: there is none. */
  readonly nowMs: number | undefined;
}

/** `unknown`: the key has a beginning or an end, and the present time is not known well enough. */
export type KeyValidity = 'valid' | 'not-yet' | 'expired' | 'unknown';

/**
 * Promise `revocation`: a key has expired only if its end has certainly passed, and is not yet valid only by a clock
 * that was set. A clock that nobody has set decides nothing, since it could keep a gateway from its updates for ever.
 */
export function validityOf({ notBeforeMs, notAfterMs }: KeyLifetime, { atLeastMs, nowMs }: KnownTime): KeyValidity {
  const known = [atLeastMs, nowMs].filter((time) => time !== undefined);
  const latestKnownMs = Math.max(...known);
  if (notAfterMs !== undefined && latestKnownMs >= notAfterMs) return 'expired';
  const hasBegun = notBeforeMs === undefined || latestKnownMs >= notBeforeMs;
  if (nowMs !== undefined) return hasBegun ? 'valid' : 'not-yet';
  return hasBegun && notAfterMs === undefined ? 'valid' : 'unknown';
}
