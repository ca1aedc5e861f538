import type { Socket } from 'node:net';

import { generate, writeToStream } from 'mqtt-packet';
import type { IConnackPacket, IConnectPacket, IPublishPacket, ISubscription, Packet } from 'mqtt-packet';

import { abortable } from '../system/abortable.ts';
import { BrokenPacket, ConnectionLost, RefusedByBroker, SilentBroker } from './errors.ts';
import { KeepAlive } from './keep-alive.ts';
import { PacketReader } from './packet-reader.ts';
import type { AnnouncedMessage, Content, Received } from './packet-reader.ts';
import { free } from './payload.ts';

// The cache of mqtt-packet would be 65,536 small buffers.
writeToStream.cacheNumbers = false;

/** Our subscriptions and messages use this quality of service. No packet uses another one, except QoS 0. */
const AT_LEAST_ONCE = 1;
const MAX_IDENTIFIER = 0xffff;
/** Callers may go on without an answer, and a broker may answer nothing. */
const MAX_UNANSWERED = 256;

export interface Message {
  readonly topic: string;
  readonly content: Content;
  /** The broker kept the message for later subscribers: it may be of any age. */
  readonly isRetained: boolean;
  /** Correlation data as text; undefined: the message has none, or the version is MQTT 3.1.1. */
  readonly correlation: string | undefined;
}

export interface ConnectionDeps {
  /** `keepalive`: seconds. */
  readonly connect: Omit<IConnectPacket, 'cmd'> & { readonly protocolVersion: 4 | 5; readonly keepalive: number };
  readonly onMessage: (message: Message) => void;
  /** Decides whether the content of this large message is wanted. */
  readonly admits: (message: AnnouncedMessage) => boolean;
  /** Called when bytes of a large message arrived. */
  readonly onProgress?: () => void;
  /** Called when so many bytes arrived; reading goes on when the promise has resolved. It never rejects. */
  readonly rest?: ((bytes: number, ended: AbortSignal) => Promise<void> | undefined) | undefined;
}

export type Publication = Pick<IPublishPacket, 'topic' | 'payload' | 'retain' | 'properties'>;

/**
 * One connection to a broker, from CONNECT to its end; the broker may send anything. A caller of `open` sets a
 * deadline; a caller that waits for an answer is told when the connection ends.
 */
export class MqttConnection implements Disposable {
  /** True if the broker still had our session: the messages that it kept for us arrive now. */
  isSessionPresent = false;
  readonly #closed = Promise.withResolvers<Error>();
  /** Resolves with the reason when the connection has ended. */
  readonly closed = this.#closed.promise;
  readonly #socket: Socket;
  readonly #deps: ConnectionDeps;
  readonly #reader: PacketReader;
  readonly #accepted = Promise.withResolvers<void>();
  readonly #ended = new AbortController();
  /** Our unanswered packets, by identifier. `resolve` takes the broker's reason code. */
  readonly #unanswered = new Map<
    number,
    { readonly answer: Packet['cmd']; readonly resolve: (reason: number) => void }
  >();
  #lastIdentifier = 0;
  #keepAlive: KeepAlive | undefined;
  #isResting = false;

  private constructor(socket: Socket, deps: ConnectionDeps) {
    const { connect, admits } = deps;
    this.#socket = socket;
    this.#deps = deps;
    this.#reader = new PacketReader(connect.protocolVersion, admits);
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    socket.on('drain', () => this.#goOn());
    socket.once('error', (error) => this.#close(error));
    socket.once('close', () => this.#close());
    this.#send({ cmd: 'connect', ...connect });
  }

  /**
   * Resolves when the broker has accepted us. Rejects with the reason for which the connection ended, or the signal's
   * reason; the socket is closed then.
   */
  static async open(socket: Socket, deps: ConnectionDeps, signal: AbortSignal): Promise<MqttConnection> {
    try {
      const connection = new MqttConnection(socket, deps);
      await abortable(connection.#orEnded(connection.#accepted.promise), signal);
      return connection;
    } catch (error) {
      socket.destroy();
      throw error;
    }
  }

  get isClosed(): boolean {
    return this.#ended.signal.aborted;
  }

  /** Resolves with the broker's reason code, which says whether the broker took the message. */
  async publish(publication: Publication): Promise<number> {
    return this.#ask('puback', (messageId) => ({
      cmd: 'publish',
      ...publication,
      qos: AT_LEAST_ONCE,
      dup: false,
      messageId,
    }));
  }

  /** Resolves with the broker's reason code: above 2 the subscription was refused. */
  async subscribe(topic: string, how: Omit<ISubscription, 'topic' | 'qos'> = {}): Promise<number> {
    const subscriptions = [{ topic, qos: AT_LEAST_ONCE, ...how } as const];
    return this.#ask('suback', (messageId) => ({ cmd: 'subscribe', messageId, subscriptions }));
  }

  /** Says goodbye; the broker closes the connection. */
  end(): void {
    this.#send({ cmd: 'disconnect', reasonCode: 0 });
    this.#socket.end();
  }

  /** Closes the connection. The first of several reasons counts, since the others follow from it. */
  destroy(reason?: Error): void {
    this.#socket.destroy();
    this.#close(reason);
  }

  [Symbol.dispose](): void {
    this.destroy();
  }

  async #ask(answer: Packet['cmd'], packetWith: (identifier: number) => Packet): Promise<number> {
    const { promise, resolve } = Promise.withResolvers<number>();
    if (this.#unanswered.size >= MAX_UNANSWERED) {
      this.destroy(new BrokenPacket(`${MAX_UNANSWERED} packets have no answer`));
    }
    const identifier = this.#newIdentifier();
    this.#unanswered.set(identifier, { answer, resolve });
    this.#send(packetWith(identifier));
    return this.#orEnded(promise);
  }

  #newIdentifier(): number {
    do this.#lastIdentifier = (this.#lastIdentifier % MAX_IDENTIFIER) + 1;
    while (this.#unanswered.has(this.#lastIdentifier));
    return this.#lastIdentifier;
  }

  #send(packet: Packet): void {
    if (!this.#socket.writable) return;
    this.#socket.write(generate(packet, { protocolVersion: this.#deps.connect.protocolVersion }));
    this.#keepAlive?.sent();
  }

  #receive(chunk: Buffer): void {
    const { onProgress, rest } = this.#deps;
    const wasBusy = this.#reader.isBusy;
    let isCopied = wasBusy;
    this.#socket.cork(); // all acknowledgements are written at once
    try {
      for (const received of this.#reader.push(chunk)) {
        isCopied = false;
        this.#take(received);
        if (this.isClosed) return;
      }
    } catch (error) {
      if (!(error instanceof BrokenPacket)) throw error;
      this.destroy(error);
      return;
    } finally {
      this.#socket.uncork();
    }
    this.#keepAlive?.heard();
    const { byteLength } = chunk;
    if (isCopied) free(chunk);
    const rested = rest?.(byteLength, this.#ended.signal);
    if (rested !== undefined) void this.#restUntil(rested);
    this.#goOn();
    if (wasBusy || this.#reader.isBusy) onProgress?.();
  }

  async #restUntil(rested: Promise<void>): Promise<void> {
    this.#isResting = true;
    await rested;
    this.#isResting = false;
    this.#goOn();
  }

  /** Stops reading while our acknowledgements cannot be written, or while `rest` asks for a pause. */
  #goOn(): void {
    if (this.#isDeaf) this.#socket.pause();
    else this.#socket.resume();
  }

  get #isDeaf(): boolean {
    return this.#isResting || this.#socket.writableNeedDrain;
  }

  #take({ packet, content }: Received): void {
    if (packet.cmd === 'connack') this.#enter(packet);
    else if (packet.cmd === 'puback') this.#answer(packet, packet.reasonCode ?? 0);
    else if (packet.cmd === 'suback') this.#answer(packet, Number(packet.granted[0]));
    else if (packet.cmd === 'disconnect') this.destroy(refusal('ends the connection', packet.reasonCode));
    else if (packet.cmd === 'publish' && content !== undefined) {
      const { topic, retain, qos, properties, messageId = 0 } = packet;
      const correlation = properties?.correlationData?.toString('utf8');
      this.#deps.onMessage({ topic, content, isRetained: retain, correlation });
      if (qos > 0) this.#send({ cmd: 'puback', messageId, reasonCode: 0 });
    }
  }

  #enter(connack: IConnackPacket): void {
    const { returnCode, reasonCode = returnCode, properties } = connack;
    if (reasonCode === undefined) throw new BrokenPacket('it does not say whether we may enter');
    if (reasonCode !== 0) {
      this.destroy(refusal('does not let us in', reasonCode));
      return;
    }
    const seconds = properties?.serverKeepAlive ?? this.#deps.connect.keepalive;
    // mqtt-packet makes a list of a property that comes twice, and -1 of one that is cut off
    if (!(seconds >= 0)) throw new BrokenPacket('its keep-alive time cannot be read');
    if (seconds > 0) {
      const ping = (): void => this.#send({ cmd: 'pingreq' });
      this.#keepAlive = new KeepAlive(seconds * 1000, ping, () => {
        if (!this.#isDeaf) this.destroy(new SilentBroker());
      });
    }
    this.isSessionPresent = connack.sessionPresent;
    this.#accepted.resolve();
  }

  /** Ignores an answer to an unknown packet: the session may remember packets of an earlier connection. */
  #answer({ cmd, messageId = 0 }: Packet, reason: number): void {
    const asked = this.#unanswered.get(messageId);
    if (asked === undefined) return;
    if (asked.answer !== cmd || Number.isNaN(reason)) throw new BrokenPacket(`a ${cmd} answers what was not asked`);
    this.#unanswered.delete(messageId);
    asked.resolve(reason);
  }

  #close(reason: Error = new ConnectionLost()): void {
    this.#keepAlive?.[Symbol.dispose]();
    this.#ended.abort(reason);
    this.#closed.resolve(reason);
  }

  /** Waits for the step, but fails with the reason of the connection's end as soon as the connection ends. */
  async #orEnded<T>(step: Promise<T>): Promise<T> {
    return abortable(step, this.#ended.signal);
  }
}

function refusal(what: string, reason = 0): RefusedByBroker | undefined {
  return reason === 0 ? undefined : new RefusedByBroker(what, reason);
}
