import { backoffMs } from '../../../system/time/retry.ts';
import type { ServiceError } from '../../errors.ts';
import { STABLE_MS } from '../settings.ts';
import type { MessagingSettings } from '../settings.ts';

/** Enough failures for the longest pause. */
const MANY_FAILURES = 30;
/** Enough failures for half a minute, since a whole fleet may lose a good connection at the same moment. */
const LOST_GOOD_ONE = 6;

/**
 * Computes the pauses before the broker is tried again, with full jitter, longer after each failure. It has no clock.
 */
export class ReconnectBackoff {
  readonly #settings: Pick<MessagingSettings, 'reconnect'>;
  readonly #random: () => number;
  #failures = 0;

  constructor(settings: Pick<MessagingSettings, 'reconnect'>, random: () => number) {
    this.#settings = settings;
    this.#random = random;
  }

  /** Returns the pause after an attempt that ended like this, after lasting this time. */
  nextMs({ code }: Pick<ServiceError, 'code'>, lastedMs: number): number {
    this.#failures = lastedMs >= STABLE_MS ? LOST_GOOD_ONE : this.#failures + 1;
    const policy = { ...this.#settings.reconnect, attempts: 0, maxRetryAfterMs: 0 };
    // two clients with the same id would otherwise take the session from each other as fast as they can
    return backoffMs(policy, code === 'broker-session-taken' ? MANY_FAILURES : this.#failures, this.#random);
  }
}
