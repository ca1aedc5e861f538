/** From when until when a key is believed; undefined: since ever, for ever. Milliseconds since the epoch. */
export interface KeyLife {
  readonly notBeforeMs?: number | undefined;
  readonly notAfterMs?: number | undefined;
}

/** What is known of the time, on a gateway whose clock perhaps nobody has set. */
export interface KnownTime {
  /** It is later than that: the service said so, or a trusted key did. Undefined: nobody said. */
  readonly atLeastMs: number | undefined;
  /** By a clock that a time server has set; undefined: there is none. */
  readonly nowMs: number | undefined;
}

/** `unknown`: it has a beginning or an end, and nobody can say whether it is before or after that. */
export type KeyValidity = 'valid' | 'not-yet' | 'expired' | 'unknown';

/**
 * A key has expired once it is certain that its end is over, and is not valid yet only by a clock that was set. A clock that
 * nobody has set decides nothing: it would keep a gateway from its updates for ever.
 */
export function validityOf({ notBeforeMs, notAfterMs }: KeyLife, { atLeastMs, nowMs }: KnownTime): KeyValidity {
  const known = [atLeastMs, nowMs].filter((time) => time !== undefined);
  const latestKnownMs = Math.max(...known);
  if (notAfterMs !== undefined && latestKnownMs >= notAfterMs) return 'expired';
  const hasBegun = notBeforeMs === undefined || latestKnownMs >= notBeforeMs;
  if (nowMs !== undefined) return hasBegun ? 'valid' : 'not-yet';
  return hasBegun && notAfterMs === undefined ? 'valid' : 'unknown';
}
