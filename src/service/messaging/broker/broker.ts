import { abortable } from '../../../system/abortable.ts';
import type { TransportDeps } from '../../contract.ts';
import { ServiceError } from '../../errors.ts';
import type { MessagingSettings } from '../settings.ts';
import { BrokerConnection } from './broker-connection.ts';
import type { ConnectionEvents } from './broker-connection.ts';
import { ReconnectBackoff } from './reconnect.ts';

export interface BrokerEvents extends ConnectionEvents {
  readonly onUp: (connection: BrokerConnection) => void;
}

export type BrokerState = 'unused' | 'connecting' | 'connected' | 'waiting';

/**
 * The connection to the broker, which stays open once it was needed. After a loss it is reopened with unlimited
 * attempts, with pauses of full jitter in between. A caller that waits for it learns why an attempt failed, and ends
 * the pause.
 */
export class Broker implements AsyncDisposable {
  readonly #settings: MessagingSettings;
  readonly #deps: TransportDeps;
  readonly #events: BrokerEvents;
  readonly #life = new AbortController();
  #state: BrokerState = 'unused';
  #isPresent = false;
  #problem: ServiceError | undefined;
  #refusal: ServiceError | undefined;
  /** The reason that was logged why the broker cannot be reached: an outage of days is logged once. */
  #told: string | undefined;
  /** The attempt that runs, or the next one. */
  #attempt = Promise.withResolvers<BrokerConnection>();
  #pause = new AbortController();
  #current: BrokerConnection | undefined;
  #loop: Promise<void> = Promise.resolve();

  constructor(settings: MessagingSettings, events: BrokerEvents, deps: TransportDeps) {
    this.#settings = settings;
    this.#events = events;
    this.#deps = deps;
    this.#attempt.promise.catch(() => {}); // the error goes to the callers that wait for the attempt
  }

  get state(): BrokerState {
    return this.#state;
  }

  /** The reason for a missing connection. Undefined if there is one, or none was needed yet. */
  get problem(): ServiceError | undefined {
    return this.#problem;
  }

  /** The useful topic that the broker does not permit on the open connection. */
  get refusal(): ServiceError | undefined {
    return this.#refusal;
  }

  /** Publishes the status topic and subscribes to the wake topic, from the first connection on. Call this before it. */
  attend(): void {
    this.#isPresent = true;
  }

  /** Opens the connection now and keeps it open, whether anybody asks or not. */
  connect(): void {
    if (this.#state === 'unused' && !this.#life.signal.aborted) this.#loop = this.#run();
  }

  /** Resolves with an open connection. Rejects with the failure of the next attempt. */
  async connection(signal: AbortSignal): Promise<BrokerConnection> {
    signal.throwIfAborted();
    this.#life.signal.throwIfAborted();
    this.connect();
    const attempt = this.#attempt.promise;
    this.#pause.abort();
    return abortable(attempt, signal);
  }

  /** Abandons the connection for another one, since its input is malformed, or it has no input. */
  abandonConnection(reason: ServiceError): void {
    this.#current?.abandon(reason);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#life.abort(new ServiceError({ code: 'broker-lost', why: 'the connection to the broker is closed' }));
    this.#attempt.reject(this.#life.signal.reason);
    await this.#loop;
  }

  async #run(): Promise<void> {
    const { clock, random, log } = this.#deps;
    const pauses = new ReconnectBackoff(this.#settings, random);
    while (!this.#life.signal.aborted) {
      const startedMs = clock.monotonicMs();
      const reason = await this.#connectOnce();
      if (reason === undefined) return;
      const pauseMs = pauses.nextMs(reason, clock.monotonicMs() - startedMs);
      const level = reason.code === this.#told ? 'debug' : 'warn';
      log[level](
        { code: reason.code, error: reason.message, pauseMs: Math.round(pauseMs) },
        'the broker is to be reached again',
      );
      this.#told = reason.code;
      await this.#rest(pauseMs);
    }
  }

  /** Opens one connection and waits until it closes. Returns the reason, or undefined if the agent closed it. */
  async #connectOnce(): Promise<ServiceError | undefined> {
    const { signal } = this.#life;
    this.#state = 'connecting';
    try {
      await using connection = await BrokerConnection.open(
        { ...this.#deps, settings: this.#isPresent ? this.#settings : withoutPresence(this.#settings) },
        this.#events,
        signal,
      );
      this.#current = connection;
      this.#state = 'connected';
      this.#problem = undefined;
      this.#told = undefined;
      this.#noteConnection(connection);
      this.#attempt.resolve(connection);
      this.#events.onUp(connection);
      return this.#fail(await abortable(connection.closed, signal));
    } catch (error) {
      if (signal.aborted) return undefined;
      if (!(error instanceof ServiceError)) throw error;
      return this.#fail(error);
    }
  }

  #noteConnection({ isSessionPresent, refusal }: BrokerConnection): void {
    const { log } = this.#deps;
    this.#refusal = refusal;
    log.info({ resumed: isSessionPresent }, 'connected to the broker');
    if (refusal !== undefined) log.warn({ code: refusal.code, advice: refusal.advice }, refusal.message);
  }

  #fail(reason: ServiceError): ServiceError {
    this.#current = undefined;
    this.#state = 'waiting';
    this.#refusal = undefined;
    this.#problem = reason;
    this.#attempt.reject(reason);
    this.#attempt = Promise.withResolvers();
    this.#attempt.promise.catch(() => {}); // the error goes to the callers that wait for the attempt
    return reason;
  }

  async #rest(ms: number): Promise<void> {
    this.#pause = new AbortController();
    const awake = AbortSignal.any([this.#pause.signal, this.#life.signal]);
    try {
      await this.#deps.clock.sleep(ms, awake);
    } catch (error) {
      if (!awake.aborted) throw error;
    }
  }
}

function withoutPresence(settings: MessagingSettings): MessagingSettings {
  return { ...settings, topics: { ...settings.topics, status: undefined, wake: undefined } };
}
