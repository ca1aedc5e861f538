import { AgentError, describeError, valueOrError } from '../system/errors.ts';
import type { JsonText } from '../system/json-value.ts';
import type { Log } from '../system/log/log.ts';
import type { Clock } from '../system/time/clock.ts';
import { retryAfter, retryPauseMs } from '../system/time/retry.ts';
import type { RetryPolicy } from '../system/time/retry.ts';
import type { FirmwareSource, ProvisioningService, RecordedVersion } from '../update/ports.ts';
import { ActivatedIdentity } from './activation.ts';
import type { Activation, Datapoint, ServiceTransport, Version, WithThing } from './contract.ts';
import { isKeyRejected, neverSoon, ServiceError } from './errors.ts';
import type { Identity, IdentityStore } from './identity.ts';
import { operations } from './operations.ts';
import type { Input, Operation } from './operations.ts';

export interface SessionDeps {
  readonly transport: ServiceTransport;
  readonly identities: IdentityStore;
  readonly serialNumber: string;
  readonly clock: Clock;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  readonly log: Log;
  /** Called after each activation. */
  readonly onActivated?: ((thingId: string, isAgain: boolean) => void) | undefined;
  readonly onShared?: (() => void) | undefined;
  /** The last successful call before a reload of the configuration, ISO 8601. */
  readonly lastContactAt?: string | undefined;
}

/** A single call makes a few attempts; callers with a schedule come back anyway. */
export const callRetry: RetryPolicy = {
  attempts: 4,
  firstDelayMs: 1_000,
  maxDelayMs: 15_000,
  maxRetryAfterMs: 27_000,
};

const RECORD_PAUSE_MS = 24 * 3_600_000;

export interface ServiceStatus {
  /** The last error since the last success, as one line. */
  readonly lastError: string | undefined;
  /** ISO 8601, by the gateway's clock. */
  readonly lastContactAt: string | undefined;
  /** The time of the service's last error response. Omitted if none came since the last success. */
  readonly lastRefusalAt?: string | undefined;
}

/**
 * The service as seen by this gateway, with any transport. It activates the gateway if needed, activates again if the
 * key was rejected, and makes a few attempts where waiting may help.
 */
export class ServiceSession implements ProvisioningService {
  readonly #deps: SessionDeps;
  readonly #identity: ActivatedIdentity;
  #contact: ServiceStatus;
  #lastFailure: AgentError | undefined;
  /** By the monotonic clock: when the service's record of the current version is compared again. */
  #recordDueMs = Number.NEGATIVE_INFINITY;

  constructor(deps: SessionDeps) {
    this.#deps = deps;
    this.#contact = { lastError: undefined, lastContactAt: deps.lastContactAt };
    this.#identity = new ActivatedIdentity({
      ...deps,
      onActivated: (thingId, isAgain) => {
        this.#noteContact();
        this.#recordDueMs = Number.NEGATIVE_INFINITY;
        deps.onActivated?.(thingId, isAgain);
      },
    });
  }

  get contact(): ServiceStatus {
    return this.#contact;
  }

  /** The error of `contact`, with its advice. Undefined if there was none since the last success. */
  get lastFailure(): AgentError | undefined {
    return this.#lastFailure;
  }

  /** Returns the thing ID of this gateway. Activates only if it has none yet. */
  async thing(signal: AbortSignal): Promise<{ readonly serialNumber: string; readonly thingId: string }> {
    const { serialNumber, thingId } = await this.#attempts(async () => this.#identity.obtain(signal), signal);
    return { serialNumber, thingId };
  }

  /** Activates even if there is an identity, at an operator's request. */
  async activate(signal: AbortSignal): Promise<{ readonly serialNumber: string; readonly thingId: string }> {
    const { serialNumber, thingId } = await this.#attempts(async () => this.#identity.activate(signal), signal);
    return { serialNumber, thingId };
  }

  async currentVersion(signal: AbortSignal): Promise<Version> {
    return this.#ofThing(operations.currentVersion, signal);
  }

  /**
   * Returns the current version for a read-only caller: never activates. Returns undefined if this gateway is not
   * activated.
   */
  async readCurrent(signal: AbortSignal): Promise<{ readonly thingId: string; readonly version: Version } | undefined> {
    const identity = await this.#identity.known();
    if (identity === undefined) return undefined;
    const call = async (): Promise<Version> =>
      this.#heard(this.#deps.transport.call(operations.currentVersion, identity, signal));
    return { thingId: identity.thingId, version: await this.#attempts(call, signal) };
  }

  async targetVersion(signal: AbortSignal): Promise<Version> {
    return this.#ofThing(operations.targetVersion, signal);
  }

  async updates(versionId: string, signal: AbortSignal): Promise<readonly Version[]> {
    return this.#ask(operations.updates, { versionId }, signal);
  }

  async switchTo(versionId: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#ask(operations.switchTo, { versionId }, signal);
    } catch (error) {
      this.#recordDueMs = Number.NEGATIVE_INFINITY; // it may arrive later than the next one
      throw error;
    }
  }

  async recordedVersion(signal: AbortSignal): Promise<RecordedVersion | undefined> {
    const nowMs = this.#deps.clock.monotonicMs();
    if (nowMs < this.#recordDueMs) return undefined;
    let recorded: RecordedVersion | undefined;
    try {
      recorded = (await this.readCurrent(signal))?.version;
    } catch (error) {
      if (!(error instanceof ServiceError) || error.code !== 'service-not-found') throw error;
      recorded = { id: undefined };
    }
    if (recorded !== undefined) this.#recordDueMs = nowMs + RECORD_PAUSE_MS;
    return recorded;
  }

  async property(propertyId: string, signal: AbortSignal): Promise<unknown> {
    return this.#ask(operations.property, { propertyId }, signal);
  }

  async setProperty(propertyId: string, value: unknown, signal: AbortSignal): Promise<void> {
    await this.#ask(operations.setProperty, { propertyId, value }, signal);
  }

  /** Posts datapoints in one attempt: a second one could duplicate them, and the queue decides about repeating. */
  async postDatapoints(eventId: string, value: readonly Datapoint[] | JsonText, signal: AbortSignal): Promise<void> {
    try {
      await this.#once(operations.postDatapoints, { eventId, value }, signal);
    } catch (error) {
      if (error instanceof AgentError) this.#note(error);
      throw error;
    }
  }

  /** Makes a request in one attempt, for the time in the reply. Returns true if the service replied, also by refusing. */
  async requestTime(signal: AbortSignal): Promise<boolean> {
    const reply = await valueOrError(this.#once(operations.currentVersion, {}, signal));
    if (reply instanceof AgentError) this.#note(reply);
    return !(reply instanceof AgentError) || (reply instanceof ServiceError && reply.isAnswer);
  }

  firmware(versionId: string): FirmwareSource {
    return {
      form: 'json-string',
      open: async (from, signal) => {
        const withThing: WithThing = async (call) => this.#withIdentity(call, signal);
        const open = async () => this.#deps.transport.firmware(versionId, withThing, from, signal);
        return this.#attempts(open, signal);
      },
    };
  }

  async #ask<R extends Input, O>(operation: Operation<R & Activation, O>, rest: R, signal: AbortSignal): Promise<O> {
    return this.#attempts(async () => this.#once(operation, rest, signal), signal);
  }

  async #once<R extends Input, O>(operation: Operation<R & Activation, O>, rest: R, signal: AbortSignal): Promise<O> {
    const call = async (thing: Identity): Promise<O> =>
      this.#deps.transport.call(operation, { ...rest, ...thing }, signal);
    return this.#withIdentity(call, signal);
  }

  /**
   * Makes a call that names only the thing ID. If the service does not know it, the thing was deleted there, and is
   * created again.
   */
  async #ofThing<O>(operation: Operation<Activation, O>, signal: AbortSignal): Promise<O> {
    try {
      return await this.#ask(operation, {}, signal);
    } catch (error) {
      if (!(error instanceof ServiceError) || error.code !== 'service-not-found') throw error;
      const remade = await this.#identity.reactivate(await this.#identity.obtain(signal), signal);
      if (remade === undefined) throw error;
    }
    return this.#ask(operation, {}, signal);
  }

  /** Makes a call; if the key was rejected, once more with a new one. */
  async #withIdentity<T>(operation: (thing: Identity) => Promise<T>, signal: AbortSignal): Promise<T> {
    const identity = await this.#identity.obtain(signal);
    try {
      return await this.#heard(operation(identity));
    } catch (error) {
      if (!isKeyRejected(error)) throw error;
    }
    return this.#heard(operation(await this.#identity.renew(identity, signal)));
  }

  /** Repeats the work as long as waiting here makes sense. */
  async #attempts<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const { clock, log, random } = this.#deps;
    let tries = 1;
    const onRetry = (error: AgentError): void => {
      tries += 1;
      log.warn({ code: error.code }, `${error.message}; trying again (${tries} of ${callRetry.attempts})`);
    };
    const pauseAfter = (error: unknown, failures: number): number | undefined => {
      if (error instanceof AgentError) this.#note(error);
      return callPauseMs(error, failures, random);
    };
    return retryAfter(work, pauseAfter, { clock, onRetry }, signal);
  }

  async #heard<T>(reply: Promise<T>): Promise<T> {
    const value = await reply;
    this.#noteContact();
    return value;
  }

  #noteContact(): void {
    this.#lastFailure = undefined;
    this.#contact = { lastError: undefined, lastContactAt: new Date(this.#deps.clock.nowMs()).toISOString() };
  }

  #note(error: AgentError): void {
    this.#lastFailure = error;
    const refused = error instanceof ServiceError && error.isAnswer;
    const at = new Date(this.#deps.clock.nowMs()).toISOString();
    this.#contact = { ...this.#contact, lastError: describeError(error), ...(refused && { lastRefusalAt: at }) };
  }
}

/**
 * Returns the pause after this number of failures of a call, or undefined if the call has failed: also if the service
 * wants a longer pause than a call makes.
 */
export function callPauseMs(error: unknown, failures: number, random: () => number): number | undefined {
  const isLong = error instanceof AgentError && (error.retryAfterMs ?? 0) > callRetry.maxRetryAfterMs;
  if (isLong || (error instanceof AgentError && neverSoon.has(error.code))) return undefined;
  return retryPauseMs(error, failures, callRetry, random);
}
