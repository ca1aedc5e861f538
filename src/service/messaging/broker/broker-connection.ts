import type { ConnectionDeps, ConnectOptions, MqttConnection, Publication } from '../../../mqtt/connection.ts';
import {
  MalformedPacketError,
  ConnectionLostError,
  PasswordError,
  BrokerRefusedError,
  BrokerTimeoutError,
} from '../../../mqtt/errors.ts';
import { brokerName, dialBroker, openBroker } from '../../../mqtt/open-broker.ts';
import { abortable } from '../../../system/abortable.ts';
import type { Dialing } from '../../../system/dialing.ts';
import { mapError } from '../../../system/errors.ts';
import { Deadline } from '../../../system/time/deadline.ts';
import type { TransportDeps } from '../../contract.ts';
import { ServiceError } from '../../errors.ts';
import type { Throttle } from '../../throttle.ts';
import { DISCONNECT_TIMEOUT_MS } from '../settings.ts';
import type { MessagingSettings } from '../settings.ts';
import { brokenError, entryError, lostError, refusedError, silentError, socketError } from './broker-errors.ts';

/** MQTT 5.0, section 3.4.2.1. */
const NO_MATCHING_SUBSCRIBERS = 0x10;
/** The first reason code that is a refusal, in both versions. */
const REFUSED = 0x80;
/** MQTT 5: the broker sends us neither our own messages nor retained ones. */
const newMessagesOnly = { nl: true, rh: 2 };

/** One connection to the broker, from CONNECT until it closes. A new connection is a new object. */
export class BrokerConnection implements AsyncDisposable {
  /** Resolves with the reason when the connection has ended. */
  readonly closed: Promise<ServiceError>;
  readonly #mqtt: MqttConnection;
  readonly #deps: BrokerConnectionDeps;
  #refusal: ServiceError | undefined;

  private constructor(mqtt: MqttConnection, deps: BrokerConnectionDeps) {
    this.#mqtt = mqtt;
    this.#deps = deps;
    this.closed = mqtt.closed.then((reason) => translate(reason, deps));
  }

  /** Resolves when the broker has accepted us and our subscription to the replies. */
  static async open(
    deps: BrokerConnectionDeps,
    events: ConnectionEvents,
    signal: AbortSignal,
  ): Promise<BrokerConnection> {
    const { settings, traffic } = deps;
    const dialing = dialBroker(settings.url, (socket) => traffic?.watch(socket));
    const late = (): ServiceError =>
      silentError(nameOf(settings), `did not let us in within the deadline${dialing.answers}`);
    using deadline = new Deadline(settings.deadlines.connectMs, late, signal);
    const mqtt = await enter({ ...deps, dialing }, events, deadline.signal);
    const connection = new BrokerConnection(mqtt, deps);
    try {
      await abortable(connection.#begin(), deadline.signal);
      return connection;
    } catch (error) {
      mqtt.destroy();
      throw error;
    }
  }

  get isSessionPresent(): boolean {
    return this.#mqtt.isSessionPresent;
  }

  /** The refusal of a topic that is useful but not necessary. Undefined if the broker permits them all. */
  get refusal(): ServiceError | undefined {
    return this.#refusal;
  }

  get isClosed(): boolean {
    return this.#mqtt.isClosed;
  }

  /** Resolves when the broker took the message. `unheard`: the broker also reports that the topic has no subscriber. */
  async publish(message: Publication): Promise<'heard' | 'unheard'> {
    const reason = await this.#orTranslated(this.#mqtt.publish(message));
    if (reason >= REFUSED) throw this.#refused(reason, `does not take ${message.topic}`);
    return reason === NO_MATCHING_SUBSCRIBERS ? 'unheard' : 'heard';
  }

  /** Ends a connection that is still open but no longer useful. */
  abandon(reason: ServiceError): void {
    this.#mqtt.destroy(reason);
  }

  /** Sends DISCONNECT if the broker is listening. */
  async [Symbol.asyncDispose](): Promise<void> {
    const late = new Error('the broker does not listen');
    using deadline = new Deadline(DISCONNECT_TIMEOUT_MS, () => late, new AbortController().signal);
    try {
      if (!this.isClosed) await abortable(this.#disconnect(), deadline.signal);
    } catch (error) {
      if (error !== late && !(error instanceof ServiceError)) throw error;
    } finally {
      this.#mqtt.destroy();
      await this.closed;
    }
  }

  async #begin(): Promise<void> {
    const { settings } = this.#deps;
    const { reply, wake } = settings.topics;
    const online = statusMessage('online', settings);
    // all in one round trip, of which few fit into the deadline on a slow link
    await Promise.all([
      reply === undefined ? undefined : this.#subscribe(reply),
      wake === undefined ? undefined : this.#ignoreFailure(this.#subscribe(wake)),
      online === undefined ? undefined : this.#ignoreFailure(this.publish(online)),
    ]);
  }

  /** Waits for a step that is useful but not necessary: where the broker does not permit it, the connection stays. */
  async #ignoreFailure(step: Promise<unknown>): Promise<void> {
    try {
      await step;
    } catch (error) {
      if (this.isClosed || !(error instanceof ServiceError)) throw error;
      this.#refusal ??= error;
    }
  }

  async #subscribe(topic: string): Promise<void> {
    const reason = await this.#orTranslated(this.#mqtt.subscribe(topic, newMessagesOnly));
    if (reason >= REFUSED) throw this.#refused(reason, `does not let us read ${topic}`);
  }

  async #disconnect(): Promise<void> {
    const offline = statusMessage('offline', this.#deps.settings);
    if (offline !== undefined) await this.publish(offline);
    this.#mqtt.end();
    await this.closed;
  }

  #refused(reason: number, what: string): ServiceError {
    return refusedError(reason, nameOf(this.#deps.settings), what);
  }

  async #orTranslated<T>(step: Promise<T>): Promise<T> {
    return mapError(step, (error) => translate(error, this.#deps));
  }
}

export interface BrokerConnectionDeps extends Pick<TransportDeps, 'clock' | 'throttle' | 'traffic'> {
  readonly settings: MessagingSettings;
}

export interface ConnectionEvents extends Pick<ConnectionDeps, 'onMessage' | 'onSkipped' | 'admits'> {
  /** Called when bytes of a large message arrived. */
  readonly onProgress: () => void;
  /** Called before a pause of this length, in which nothing is read because too much arrived in a short time. */
  readonly onNap: (ms: number) => void;
}

/** Returns the content of CONNECT, except user name and password. */
export function connectOptions(settings: MessagingSettings): ConnectOptions {
  const { protocolVersion, clientId, keepAliveMs, sessionExpiryMs } = settings;
  const will = statusMessage('offline', settings);
  return {
    protocolVersion,
    clientId,
    keepalive: Math.ceil(keepAliveMs / 1000),
    clean: sessionExpiryMs === 0,
    ...(protocolVersion === 5 && { properties: { sessionExpiryInterval: Math.ceil(sessionExpiryMs / 1000) } }),
    ...(will !== undefined && { will: { ...will, qos: 1 } }),
  };
}

/**
 * Returns the message of the status topic, if there is one. The broker keeps it for later subscribers, and sends
 * `offline` itself when the connection breaks.
 */
function statusMessage(state: 'online' | 'offline', { topics, serialNumber, agentVersion }: MessagingSettings) {
  if (topics.status === undefined) return undefined;
  return { topic: topics.status, payload: JSON.stringify({ state, serialNumber, agentVersion }), retain: true };
}

async function enter(
  deps: BrokerConnectionDeps & { readonly dialing: Dialing },
  events: ConnectionEvents,
  signal: AbortSignal,
): Promise<MqttConnection> {
  const { settings, throttle, dialing } = deps;
  const rest = throttle && (async (bytes: number, ended: AbortSignal) => pause(bytes, throttle, events, ended));
  try {
    const login = { ...settings.tls, ...settings };
    return await openBroker(login, { ...events, rest, dialing, connect: connectOptions(settings) }, signal);
  } catch (error) {
    signal.throwIfAborted();
    throw entryError(translate(error, deps));
  }
}

/** Waits while the bytes exceed the rate. Reads nothing from the broker while waiting. */
async function pause(bytes: number, throttle: Throttle, events: ConnectionEvents, ended: AbortSignal): Promise<void> {
  const onNap = (ms: number): void => {
    events.onNap(ms);
    events.onProgress();
  };
  try {
    await throttle.pass(bytes, ended, onNap);
  } catch (error) {
    if (!ended.aborted) throw error;
  }
}

function translate(error: unknown, { settings, clock }: BrokerConnectionDeps): ServiceError {
  const broker = nameOf(settings);
  if (error instanceof ServiceError) return error;
  if (error instanceof ConnectionLostError) return lostError(broker);
  if (error instanceof BrokerRefusedError) return refusedError(error.reason, broker, error.message);
  if (error instanceof BrokerTimeoutError) {
    const seconds = settings.keepAliveMs / 1000;
    return silentError(broker, `sent nothing for longer than its keep-alive time of ${seconds} s`);
  }
  if (error instanceof MalformedPacketError) return brokenError(error, broker);
  if (error instanceof PasswordError) {
    return new ServiceError({ code: 'broker-password', why: error.message, cause: error });
  }
  return socketError(error, broker, clock);
}

function nameOf({ url }: MessagingSettings): string {
  return brokerName(url);
}
