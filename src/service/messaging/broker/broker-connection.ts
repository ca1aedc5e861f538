import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';

import { MqttClient } from 'mqtt';
import type { IClientOptions, IConnackPacket, IPublishPacket, Packet } from 'mqtt';

import { ClientStream } from '../../../mqtt/client-stream.ts';
import { brokerName } from '../../../mqtt/open-socket.ts';
import { Payload } from '../../../mqtt/payload.ts';
import { PublishSplitter } from '../../../mqtt/publish-splitter.ts';
import { abortable } from '../../../system/abortable.ts';
import type { Clock } from '../../../system/time/clock.ts';
import { Deadline } from '../../../system/time/deadline.ts';
import { ServiceError } from '../../errors.ts';
import type { Throttle } from '../../throttle.ts';
import type { Traffic } from '../../traffic.ts';
import type { ConnectionEvents, Outbound } from '../messages.ts';
import { GOODBYE_MS } from '../settings.ts';
import type { MessagingSettings } from '../settings.ts';
import { birthMessage, lastWill } from '../status-message.ts';
import { entryError, lostError, refusedError, silentError, socketError } from './broker-errors.ts';
import { openBrokerSocket, readPassword } from './broker-socket.ts';
import { AT_LEAST_ONCE, clientOptions, requestProperties } from './client-options.ts';

const TICKET_BYTES = 16;
/** MQTT 5.0, section 3.4.2.1. */
const NO_MATCHING_SUBSCRIBERS = 0x10;
/** MQTT 5: no messages of our own, and none that the broker kept. */
const newMessagesOnly = { nl: true, rh: 2 };

/** One connection to the broker, from CONNECT to its end; another one is another object. MQTT.js is named only here. */
export class BrokerConnection implements AsyncDisposable {
  readonly #settings: MessagingSettings;
  readonly #clock: ConnectionContext['clock'];
  readonly #broker: string;
  readonly #stream: ClientStream;
  readonly #client: MqttClient;
  readonly #events: ConnectionEvents;
  readonly #ended = new AbortController();
  readonly #closed = Promise.withResolvers<ServiceError>();
  readonly #connected = Promise.withResolvers<IConnackPacket>();
  /** Packet identifiers of messages that the broker passed on to nobody. */
  readonly #unheard = new Set<number>();
  #failure: ServiceError | undefined;
  #refusal: ServiceError | undefined;
  #isLetIn = false;
  #isSessionPresent = false;
  #lastPingMs = Number.NEGATIVE_INFINITY;

  private constructor(
    socket: Socket,
    options: Pick<IClientOptions, 'password'>,
    events: ConnectionEvents,
    { settings, clock, throttle }: ConnectionContext,
  ) {
    const { protocolVersion } = settings;
    this.#settings = settings;
    this.#clock = clock;
    this.#events = events;
    this.#broker = brokerName(new URL(settings.url));
    const newTicket = (): Buffer => randomBytes(TICKET_BYTES);
    const splitter = new PublishSplitter({ protocolVersion, admits: events.admits, newTicket });
    this.#stream = new ClientStream(socket, splitter, {
      onProgress: () => this.#progress(),
      rest: (bytes) => throttle && this.#rest(bytes, throttle),
    });
    this.#client = new MqttClient(() => this.#stream, { ...clientOptions(settings), ...options });
    this.#listen();
  }

  /** Resolves when the broker let us in and took our subscription to the replies. */
  static async open(
    context: ConnectionContext,
    events: ConnectionEvents,
    signal: AbortSignal,
  ): Promise<BrokerConnection> {
    const { settings } = context;
    const name = brokerName(new URL(settings.url));
    const late = (): ServiceError => silentError(name, 'did not let us in within the deadline');
    using deadline = new Deadline(settings.deadlines.connectMs, late, signal);
    const password = await readPassword(settings.passwordFile, deadline.signal);
    const socket = await openBrokerSocket(settings, context, deadline.signal);
    const options = password === undefined ? {} : { password };
    const connection = new BrokerConnection(socket, options, events, context);
    try {
      await abortable(connection.#begin(), deadline.signal);
      return connection;
    } catch (error) {
      connection.#stream.destroy();
      throw connection.#isLetIn ? error : entryError(error);
    }
  }

  /** The broker still had our session: what was sent to us meanwhile comes now. */
  get isSessionPresent(): boolean {
    return this.#isSessionPresent;
  }

  /** What the broker does not permit, of what is of use but not needed. */
  get refusal(): ServiceError | undefined {
    return this.#refusal;
  }

  get isClosed(): boolean {
    return this.#ended.signal.aborted;
  }

  /** Resolves with the reason when the connection has ended. */
  get closed(): Promise<ServiceError> {
    return this.#closed.promise;
  }

  /** Resolves when the broker took it; `unheard`: and, by its own account, passed it on to nobody. */
  async publish({ topic, text, retain = false, request }: Outbound): Promise<'heard' | 'unheard'> {
    const { promise, resolve, reject } = Promise.withResolvers<'heard' | 'unheard'>();
    const done = (error: unknown): void => {
      const reason = reasonCode(error);
      if (reason !== undefined) reject(refusedError(reason, this.#broker, `does not take ${topic}`));
      else if (error instanceof Error) reject(lostError(this.#broker));
      else resolve(this.#unheard.delete(messageId) ? 'unheard' : 'heard');
    };
    const properties = request === undefined ? {} : { properties: requestProperties(request) };
    this.#client.publish(topic, text, { qos: AT_LEAST_ONCE, retain, ...properties }, done);
    const messageId = this.#client.getLastMessageId();
    return this.#orClosed(promise);
  }

  /** Ends the connection, which is of no use any more though it stands. */
  abandon(reason: ServiceError): void {
    this.#fail(reason);
  }

  /** Says goodbye, if the broker listens. */
  async [Symbol.asyncDispose](): Promise<void> {
    const late = new Error('the broker does not listen');
    using deadline = new Deadline(GOODBYE_MS, () => late, new AbortController().signal);
    try {
      if (this.#client.connected) await abortable(this.#sayGoodbye(), deadline.signal);
    } catch (error) {
      if (error !== late && !(error instanceof ServiceError)) throw error;
    } finally {
      this.#stream.destroy();
      await this.#closed.promise;
    }
  }

  async #begin(): Promise<void> {
    const { sessionPresent } = await this.#orClosed(this.#connected.promise);
    this.#isLetIn = true;
    this.#isSessionPresent = sessionPresent;
    const { reply, wake, status } = this.#settings.topics;
    if (reply !== undefined) await this.#subscribe(reply);
    if (wake !== undefined) await this.#doWithout(this.#subscribe(wake));
    if (status !== undefined) await this.#doWithout(this.publish(birthMessage(status, this.#settings)));
  }

  /** Something that is of use, but no reason to stay away where the broker does not permit it. */
  async #doWithout(step: Promise<unknown>): Promise<void> {
    try {
      await step;
    } catch (error) {
      if (this.isClosed || !(error instanceof ServiceError) || error.code === 'broker-lost') throw error;
      this.#refusal ??= error;
    }
  }

  async #subscribe(topic: string): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#client.subscribe(topic, { qos: AT_LEAST_ONCE, ...newMessagesOnly }, (error, _granted, packet) => {
      const codes: readonly unknown[] = packet?.granted ?? [];
      const refused = codes.find((code) => typeof code === 'number' && code >= 0x80);
      const what = `does not let us read ${topic}`;
      if (refused !== undefined) reject(refusedError(Number(refused), this.#broker, what));
      else if (error instanceof Error) reject(lostError(this.#broker));
      else resolve();
    });
    await this.#orClosed(promise);
  }

  async #sayGoodbye(): Promise<void> {
    const { status } = this.#settings.topics;
    if (status !== undefined) await this.publish(lastWill(status, this.#settings));
    // it would wait for their acknowledgement, but nobody waits for their replies any more
    for (const id of Object.keys(this.#client.outgoing)) this.#client.removeOutgoingMessage(Number(id));
    this.#client.end();
    await this.#closed.promise;
  }

  #listen(): void {
    const client = this.#client;
    client.on('connect', (packet) => this.#connected.resolve(packet));
    client.on('message', (topic, payload, packet) => this.#receive(topic, payload, packet));
    client.on('packetreceive', (packet) => this.#noteUnheard(packet));
    client.on('disconnect', ({ reasonCode: reason }) => {
      if (reason !== undefined && reason !== 0) this.#fail(refusedError(reason, this.#broker, 'ends the connection'));
    });
    client.on('error', (error) => this.#fail(this.#translate(error)));
    this.#stream.on('error', (error) => this.#fail(this.#translate(error)));
    client.on('close', () => {
      const reason = this.#failure ?? lostError(this.#broker);
      this.#ended.abort(reason);
      this.#closed.resolve(reason);
    });
  }

  #receive(topic: string, bytes: Buffer, packet: IPublishPacket): void {
    const content = this.#stream.redeem(bytes) ?? { kind: 'whole', payload: new Payload([bytes]) };
    const correlation = packet.properties?.correlationData?.toString('utf8');
    this.#events.onMessage({ topic, content, isRetained: packet.retain, correlation });
  }

  #noteUnheard(packet: Packet): void {
    if (packet.cmd !== 'puback' || packet.messageId === undefined) return;
    if (packet.reasonCode === NO_MATCHING_SUBSCRIBERS) this.#unheard.add(packet.messageId);
  }

  /** While a large message comes, the answer to a ping cannot: its bytes are sign of life enough, but the broker wants one too. */
  #progress(): void {
    const nowMs = this.#clock.monotonicMs();
    if (this.#client.connected && nowMs - this.#lastPingMs >= this.#settings.keepAliveMs / 4) {
      this.#lastPingMs = nowMs;
      this.#client.sendPing();
      this.#client.reschedulePing(true);
    }
    this.#events.onProgress();
  }

  /** Waits while so many bytes are too many at once. Nothing is read from the broker meanwhile, and it is kept from taking us for dead. */
  async #rest(bytes: number, throttle: Throttle): Promise<void> {
    const onNap = (ms: number): void => {
      this.#events.onNap(ms);
      this.#progress();
    };
    try {
      await throttle.pass(bytes, this.#ended.signal, onNap);
    } catch (error) {
      if (!this.#ended.signal.aborted) throw error;
    }
  }

  #translate(error: Error): ServiceError {
    const reason = reasonCode(error);
    if (reason !== undefined) return refusedError(reason, this.#broker, 'does not let us in');
    if (error.message === 'Keepalive timeout') {
      const seconds = this.#settings.keepAliveMs / 1000;
      return silentError(this.#broker, `did not answer for longer than its keep-alive time of ${seconds} s`);
    }
    if ('code' in error) return socketError(error, this.#broker, this.#clock);
    const why = `the broker ${this.#broker} does not keep to MQTT: ${error.message}`;
    return new ServiceError({ code: 'broker-unsuitable', why, cause: error });
  }

  /** The first reason is the true one. */
  #fail(reason: ServiceError): void {
    this.#failure ??= reason;
    this.#stream.destroy();
  }

  /** What the end of the connection leaves undone fails with its reason. */
  async #orClosed<T>(step: Promise<T>): Promise<T> {
    return abortable(step, this.#ended.signal);
  }
}

export interface ConnectionContext {
  readonly settings: MessagingSettings;
  readonly clock: Pick<Clock, 'nowMs' | 'monotonicMs'>;
  readonly throttle?: Throttle | undefined;
  readonly traffic?: Traffic | undefined;
}

/** Reason codes come as numbers; the operating system's codes are texts. */
function reasonCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  return typeof error.code === 'number' ? error.code : undefined;
}
