import { describeError } from '../system/errors.ts';
import { StorageError } from '../system/files/durable-file.ts';
import type { Log } from '../system/log/log.ts';
import type { Clock } from '../system/time/clock.ts';
import type { ServiceTransport } from './contract.ts';
import { ServiceError } from './errors.ts';
import type { Identity, IdentityStore } from './identity.ts';
import { operations } from './operations.ts';
import type { RenewalLimit } from './renewal-limit.ts';

export interface ActivationContext {
  readonly transport: Pick<ServiceTransport, 'call'>;
  readonly store: IdentityStore;
  readonly serialNumber: string;
  readonly limit: RenewalLimit;
  /** Of activations because the thing is gone. */
  readonly remakes: RenewalLimit;
  /** The gateway is a thing anew: what an older one was refused may be tried again. */
  readonly onActivated?: ((thingId: string, isAgain: boolean) => void) | undefined;
  /** Another device takes the key away, again and again. */
  readonly onShared?: (() => void) | undefined;
  readonly clock: Pick<Clock, 'nowMs' | 'monotonicMs'>;
  readonly log: Log;
}

/**
 * The identity of this gateway: from the store, else from activation. One caller at a time, so that several calls that
 * find their key rejected activate once. A crash between the service's answer and the disk costs one more activation.
 */
export class ActivatedIdentity {
  readonly #context: ActivationContext;
  #identity: Identity | undefined;
  /** What the store was last seen to hold; another key in it is another process's activation. */
  #storedKey: string | undefined;
  #lastTurn: Promise<void> = Promise.resolve();

  constructor(context: ActivationContext) {
    this.#context = context;
  }

  /** Without asking the service. Undefined: this gateway is not activated, as far as is known. */
  async known(): Promise<Identity | undefined> {
    return this.#identity ?? (await this.#load());
  }

  async obtain(signal: AbortSignal): Promise<Identity> {
    return this.#inTurn(
      signal,
      async () => this.#identity ?? (await this.#adoptStored()) ?? (await this.#activate(signal)),
    );
  }

  /** After the service rejected this identity's key. Throws `serial-number-shared` when that happens too often. */
  async renew(rejected: Identity, signal: AbortSignal): Promise<Identity> {
    return this.#inTurn(signal, async () => {
      if (this.#identity !== undefined && this.#identity.apiKey !== rejected.apiKey) return this.#identity;
      return (await this.#adoptStored()) ?? (await this.#activateAgain(signal));
    });
  }

  /**
   * After the service said that it does not know this thing: activation makes it again. Undefined: that did not help a
   * while ago.
   */
  async remake(lost: Identity, signal: AbortSignal): Promise<Identity | undefined> {
    const { remakes, clock, serialNumber, log } = this.#context;
    if (remakes.waitMs(clock.monotonicMs()) > 0) return undefined;
    return this.#inTurn(signal, async () => {
      if (this.#identity !== undefined && this.#identity.apiKey !== lost.apiKey) return this.#identity;
      log.warn(
        { serialNumber, thingId: lost.thingId },
        'the service does not know this thing any more; the gateway activates again',
      );
      remakes.note(clock.monotonicMs());
      return this.#activate(signal);
    });
  }

  /** Whatever there is. */
  async activate(signal: AbortSignal): Promise<Identity> {
    return this.#inTurn(signal, async () => this.#activate(signal));
  }

  async #activateAgain(signal: AbortSignal): Promise<Identity> {
    const { limit, clock, serialNumber, log } = this.#context;
    const waitMs = limit.waitMs(clock.monotonicMs());
    if (waitMs > 0) {
      this.#context.onShared?.();
      throw sharedSerialNumber(serialNumber, waitMs);
    }
    log.warn({ serialNumber }, 'the service does not accept the API key any more; the gateway activates again');
    limit.note(clock.monotonicMs());
    return this.#activate(signal);
  }

  async #activate(signal: AbortSignal): Promise<Identity> {
    const { transport, serialNumber, clock, log } = this.#context;
    const before = this.#identity ?? (await this.#load());
    const { thingId, apiKey } = await transport.call(operations.activate, { serialNumber }, signal);
    const identity = { serialNumber, thingId, apiKey, activatedAt: new Date(clock.nowMs()).toISOString() };
    this.#identity = identity;
    this.#context.onActivated?.(thingId, before !== undefined);
    log.info({ serialNumber, thingId }, 'activated');
    return identity;
  }

  /** What the store holds, if we have not seen it yet. */
  async #adoptStored(): Promise<Identity | undefined> {
    const stored = await this.#load();
    if (stored === undefined || stored.apiKey === this.#storedKey) return undefined;
    this.#storedKey = stored.apiKey;
    this.#identity = stored;
    return stored;
  }

  /** One that cannot be read is as none: the gateway activates again, and keeps what it gets in memory. */
  async #load(): Promise<Identity | undefined> {
    try {
      return await this.#context.store.load();
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
      this.#context.log.error({ code: error.code, error: describeError(error) }, 'the identity cannot be read');
      return undefined;
    }
  }

  /** A full disk does not keep the gateway from working: the identity is stored when there is room again. */
  async #store(identity: Identity): Promise<void> {
    if (identity.apiKey === this.#storedKey) return;
    try {
      await this.#context.store.save(identity);
      this.#storedKey = identity.apiKey;
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
      this.#context.log.error({ code: error.code, error: describeError(error) }, 'the identity cannot be stored');
    }
  }

  async #inTurn(signal: AbortSignal, work: () => Promise<Identity>): Promise<Identity> {
    const before = this.#lastTurn;
    const turn = Promise.withResolvers<void>();
    this.#lastTurn = turn.promise;
    await before;
    try {
      signal.throwIfAborted();
      const identity = await work();
      await this.#store(identity);
      return identity;
    } finally {
      turn.resolve();
    }
  }
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
