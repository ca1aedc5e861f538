import { describeError } from '../system/errors.ts';
import { StorageError } from '../system/files/durable-file.ts';
import type { Log } from '../system/log/log.ts';
import { SerialQueue } from '../system/serial-queue.ts';
import type { Clock } from '../system/time/clock.ts';
import type { ServiceTransport } from './contract.ts';
import { ServiceError } from './errors.ts';
import type { ServiceErrorCode } from './errors.ts';
import type { Identity, IdentityStore } from './identity.ts';
import { operations } from './operations.ts';
import { ReactivationLimit } from './reactivation-limit.ts';

export interface ActivationDeps {
  readonly transport: Pick<ServiceTransport, 'call'>;
  readonly identities: IdentityStore;
  readonly serialNumber: string;
  /**
   * Called after an activation. The thing may be a new one, so that what the service refused to the old one may be
   * tried again.
   */
  readonly onActivated?: ((thingId: string, isAgain: boolean) => void) | undefined;
  /** Called when another device repeatedly takes the key away. */
  readonly onShared?: (() => void) | undefined;
  readonly clock: Pick<Clock, 'nowMs' | 'monotonicMs'>;
  readonly log: Log;
}

/** The least time between two activations for a thing that the service does not know. */
const REMAKE_PAUSE_MS = 6 * 3_600_000;

/**
 * The identity of this gateway: from the store, else from activation. Calls run one after the other, so that several
 * calls whose key was rejected cause one activation. A crash between the service's answer and the disk costs one more
 * activation.
 */
export class ActivatedIdentity {
  readonly #deps: ActivationDeps;
  #identity: Identity | undefined;
  /** The key that was last seen in the store. A different one there comes from the activation of another process. */
  #storedKey: string | undefined;
  readonly #turns = new SerialQueue(1);
  readonly #renewals = new ReactivationLimit();
  /** Limits activations for a rejected key that the service refuses, or leaves without response. */
  readonly #refusals = new ReactivationLimit();
  /** Limits activations for a thing ID that the service no longer knows. */
  readonly #remakes = new ReactivationLimit(1, REMAKE_PAUSE_MS);
  /** The service's last refusal of an activation for a rejected key. Undefined after a granted one. */
  #lastRefusal: ServiceError | undefined;

  constructor(deps: ActivationDeps) {
    this.#deps = deps;
  }

  /**
   * Returns the identity as far as it is known without a request to the service, or undefined if this gateway is not
   * activated.
   */
  async known(): Promise<Identity | undefined> {
    return this.#identity ?? (await this.#load());
  }

  async obtain(signal: AbortSignal): Promise<Identity> {
    return this.#inTurn(
      signal,
      async () => this.#identity ?? (await this.#adoptStored()) ?? (await this.#activate(signal)),
    );
  }

  /**
   * Returns a new identity after the service has rejected this one's key. Throws `serial-number-shared` if new keys are
   * rejected too often, and the error of the last activation if too many were refused.
   */
  async renew(rejected: Identity, signal: AbortSignal): Promise<Identity> {
    return this.#inTurn(signal, async () => {
      if (this.#identity !== undefined && this.#identity.apiKey !== rejected.apiKey) return this.#identity;
      return (await this.#adoptStored()) ?? (await this.#activateAgain(signal));
    });
  }

  /**
   * Returns a new identity after the service has reported this thing ID as unknown: activation creates the thing again.
   * Returns undefined if that was tried recently and did not help.
   */
  async reactivate(lost: Identity, signal: AbortSignal): Promise<Identity | undefined> {
    const { clock, serialNumber, log } = this.#deps;
    if (this.#remakes.waitMs(clock.monotonicMs()) > 0) return undefined;
    return this.#inTurn(signal, async () => {
      if (this.#identity !== undefined && this.#identity.apiKey !== lost.apiKey) return this.#identity;
      log.warn({ serialNumber, thingId: lost.thingId }, 'the service no longer knows this thing ID; activating again');
      this.#remakes.note(clock.monotonicMs());
      return this.#activate(signal);
    });
  }

  /** Activates, even if there is an identity. */
  async activate(signal: AbortSignal): Promise<Identity> {
    return this.#inTurn(signal, async () => this.#activate(signal));
  }

  async #activateAgain(signal: AbortSignal): Promise<Identity> {
    const { clock, serialNumber, log } = this.#deps;
    const waitMs = this.#renewals.waitMs(clock.monotonicMs());
    if (waitMs > 0) {
      this.#deps.onShared?.();
      throw sharedSerialNumber(serialNumber, waitMs);
    }
    if (this.#lastRefusal !== undefined && this.#refusals.waitMs(clock.monotonicMs()) > 0)
      throw notRetried(this.#lastRefusal);
    log.warn({ serialNumber }, 'the service no longer accepts the API key; activating again');
    const identity = await this.#activateUnlessRefused(signal);
    this.#renewals.note(clock.monotonicMs());
    return identity;
  }

  /** Activates, and records a refused or failed request. */
  async #activateUnlessRefused(signal: AbortSignal): Promise<Identity> {
    try {
      return await this.#activate(signal);
    } catch (error) {
      if (error instanceof ServiceError && refusalCodes.has(error.code)) {
        this.#lastRefusal = error;
        this.#refusals.note(this.#deps.clock.monotonicMs());
      }
      throw error;
    }
  }

  async #activate(signal: AbortSignal): Promise<Identity> {
    const { transport, serialNumber, clock, log } = this.#deps;
    const before = this.#identity ?? (await this.#load());
    const { thingId, apiKey } = await transport.call(operations.activate, { serialNumber }, signal);
    const identity = { serialNumber, thingId, apiKey, activatedAt: new Date(clock.nowMs()).toISOString() };
    this.#identity = identity;
    this.#lastRefusal = undefined;
    this.#deps.onActivated?.(thingId, before !== undefined);
    log.info({ serialNumber, thingId }, 'activated');
    return identity;
  }

  /** Returns the identity in the store if it differs from the one last seen there. */
  async #adoptStored(): Promise<Identity | undefined> {
    const stored = await this.#load();
    if (stored === undefined || stored.apiKey === this.#storedKey) return undefined;
    this.#storedKey = stored.apiKey;
    this.#identity = stored;
    return stored;
  }

  /**
   * Returns the identity in the store, or undefined if none is readable. The gateway then activates again, and keeps
   * the identity in memory.
   */
  async #load(): Promise<Identity | undefined> {
    try {
      return await this.#deps.identities.load();
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
      this.#deps.log.error({ code: error.code, error: describeError(error) }, 'the identity cannot be read');
      return undefined;
    }
  }

  /** Stores the identity. If the disk is full the gateway works on, and stores it when there is room. */
  async #store(identity: Identity): Promise<void> {
    if (identity.apiKey === this.#storedKey) return;
    try {
      await this.#deps.identities.save(identity);
      this.#storedKey = identity.apiKey;
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
      this.#deps.log.error({ code: error.code, error: describeError(error) }, 'the identity cannot be stored');
    }
  }

  async #inTurn(signal: AbortSignal, work: () => Promise<Identity>): Promise<Identity> {
    const turn = async (): Promise<Identity> => {
      const identity = await work();
      await this.#store(identity);
      return identity;
    };
    return this.#turns.run(turn, signal);
  }
}

/**
 * The first ends only by an operator's action at the service; the second may have been granted, with a key that is
 * still on its way.
 */
const refusalCodes: ReadonlySet<string> = new Set<ServiceErrorCode>(['activation-refused', 'activation-timeout']);

/**
 * Returns the error of the last activation once more. It names no time for the caller to wait, since the service may
 * accept the old key again at any time.
 */
function notRetried(refusal: ServiceError): ServiceError {
  const { code, message, isAnswer } = refusal;
  const why = `${message}; the agent retries within the hour; to retry now: \`agent activate\``;
  return new ServiceError({ code, why, isAnswer, cause: refusal });
}

function sharedSerialNumber(serialNumber: string, retryAfterMs: number): ServiceError {
  return new ServiceError({
    code: 'serial-number-shared',
    operation: 'activation',
    why:
      `the service dropped the API key of serial number ${serialNumber} again and again: ` +
      'another device activates with the same serial number',
    retryAfterMs,
  });
}
