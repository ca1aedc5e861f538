import type { Socket } from 'node:net';

import { ErrorWithReasonCode, MqttClient } from 'mqtt';
import type { IClientOptions, IClientPublishOptions, IClientSubscribeOptions, Packet } from 'mqtt';

import { abortable } from '../system/abortable.ts';
import { MalformedPacketError, ConnectionLostError, BrokerRefusedError, BrokerTimeoutError } from './errors.ts';
import { PacketGuard } from './packet-guard.ts';
import type { GuardDeps } from './packet-guard.ts';

/** Our subscriptions and messages use this quality of service. No packet uses another one, except QoS 0. */
const qos = 1;
/** Callers may continue without an answer, and a broker may answer nothing. */
const MAX_UNANSWERED = 256;
/** DISCONNECT, reason 0, in both versions. */
const goodbye = Buffer.from([0xe0, 0]);

export interface Message {
  readonly topic: string;
  readonly content: Buffer;
  /** The broker kept the message for later subscribers: it may be of any age. */
  readonly isRetained: boolean;
  /** Correlation data as text; undefined if the message has none, or the version is MQTT 3.1.1. */
  readonly correlation: string | undefined;
}

export type ConnectOptions = Pick<
  IClientOptions,
  'clientId' | 'username' | 'password' | 'clean' | 'will' | 'properties'
> & {
  readonly protocolVersion: 4 | 5;
  /** Seconds. */
  readonly keepalive: number;
};

export interface ConnectionDeps extends Omit<GuardDeps, 'rest'> {
  readonly connect: ConnectOptions;
  readonly onMessage: (message: Message) => void;
  /** Called when this many bytes arrived; reading resumes when the promise has resolved. It never rejects. */
  readonly rest?: ((bytes: number, ended: AbortSignal) => Promise<void> | undefined) | undefined;
}

export interface Publication extends Pick<IClientPublishOptions, 'retain' | 'properties'> {
  readonly topic: string;
  readonly payload: string;
}

/**
 * One connection to a broker, from CONNECT to the close; the broker may send anything. A caller of `open` sets a
 * deadline; a caller that waits for a reply gets an error when the connection ends.
 */
export class MqttConnection implements Disposable {
  /** True if the broker still had our session: the messages that it kept for us arrive now. */
  isSessionPresent = false;
  readonly #closed = Promise.withResolvers<Error>();
  /** Resolves with the reason when the connection has ended. */
  readonly closed = this.#closed.promise;
  readonly #guard: PacketGuard;
  readonly #client: MqttClient;
  readonly #accepted = Promise.withResolvers<void>();
  readonly #ended = new AbortController();
  #unanswered = 0;
  /** The reason code of the last PUBACK, which MQTT.js does not pass on. */
  #pubackReason = 0;
  /** The bytes that had arrived when we last sent a ping. */
  #bytesBeforePing = 0;

  private constructor(socket: Socket, { connect, onMessage, rest, ...deps }: ConnectionDeps) {
    this.#guard = new PacketGuard(socket, { ...deps, rest: rest && ((bytes) => rest(bytes, this.#ended.signal)) });
    this.#guard.on('error', (error) => this.#close(error));
    this.#guard.on('close', () => this.#close());
    this.#client = new MqttClient(() => this.#guard, { ...connect, ...ours });
    this.#client.handleMessage = ({ topic, payload, retain, properties }, done) => {
      const correlation = properties?.correlationData?.toString('utf8');
      const content = typeof payload === 'string' ? Buffer.from(payload) : payload;
      onMessage({ topic, content, isRetained: retain, correlation });
      done();
    };
    this.#client.onKeepaliveTimeout = () => this.#missPong();
    this.#client.on('packetsend', ({ cmd }) => {
      if (cmd === 'pingreq') this.#bytesBeforePing = this.#guard.receivedBytes;
    });
    this.#client.on('packetreceive', (packet) => this.#check(packet));
    this.#client.on('connect', ({ sessionPresent }) => {
      this.isSessionPresent = sessionPresent;
      this.#accepted.resolve();
    });
    this.#client.on('error', (error) => this.destroy(new MalformedPacketError(error.message, { cause: error })));
    this.#client.connect();
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

  /** Resolves with the broker's reason code, which shows whether the broker accepted the message. */
  async publish({ topic, payload, ...options }: Publication): Promise<number> {
    return this.#ask((answer) => {
      this.#client.publish(topic, payload, { ...options, qos }, (error) => {
        if (error instanceof ErrorWithReasonCode) answer(error.code);
        else if (error === undefined || error === null) answer(this.#pubackReason);
      });
    });
  }

  /** Resolves with the broker's reason code: above 2 the subscription was refused. */
  async subscribe(topic: string, how: Omit<IClientSubscribeOptions, 'qos'> = {}): Promise<number> {
    return this.#ask((answer) => {
      this.#client.subscribe(topic, { ...how, qos }, (_error, _granted, suback) => answer(suback?.granted[0]));
    });
  }

  /** Sends DISCONNECT; the broker closes the connection. */
  end(): void {
    this.#guard.end(goodbye);
  }

  /** Closes the connection. The first of several reasons counts, since the others follow from it. */
  destroy(reason?: Error): void {
    this.#close(reason);
    this.#guard.destroy();
  }

  [Symbol.dispose](): void {
    this.destroy();
  }

  async #ask(send: (answer: (reason: unknown) => void) => void): Promise<number> {
    if (this.#unanswered >= MAX_UNANSWERED) {
      this.destroy(new MalformedPacketError(`${MAX_UNANSWERED} packets have no answer`));
    }
    const { promise, resolve } = Promise.withResolvers<number>();
    this.#unanswered += 1;
    send((reason) => {
      this.#unanswered -= 1;
      if (typeof reason === 'number') resolve(reason); // else the connection ends
    });
    return this.#orEnded(promise);
  }

  /** Judges a packet before MQTT.js acts on it. */
  #check(packet: Packet): void {
    if (packet.cmd === 'puback') this.#pubackReason = packet.reasonCode ?? 0;
    if (packet.cmd === 'disconnect') this.destroy(refusal('ends the connection', packet.reasonCode));
    if (packet.cmd !== 'connack') return;
    const { returnCode, reasonCode = returnCode, properties: { serverKeepAlive } = {} } = packet;
    if (reasonCode !== 0) this.destroy(refusal('does not let us in', reasonCode));
    // mqtt-packet makes a list of a repeated property, and -1 of a truncated one: MQTT.js throws on both
    const isReadable = serverKeepAlive === undefined || serverKeepAlive >= 0;
    if (!isReadable) this.destroy(new MalformedPacketError('its keep-alive time cannot be read'));
    // without the maximum of topic aliases, for which MQTT.js would reserve a table
    packet.properties = isReadable && serverKeepAlive !== undefined ? { serverKeepAlive } : {};
  }

  /**
   * MQTT.js calls this if no PINGRESP came for half the keep-alive time. The broker cannot answer while it sends a large
   * message, or while we read nothing: bytes show as well that it lives, and it must hear from us in time.
   */
  #missPong(): void {
    if (!this.#guard.isDeaf && this.#guard.receivedBytes === this.#bytesBeforePing)
      this.destroy(new BrokerTimeoutError());
    this.#client.sendPing();
    this.#client.reschedulePing(true);
  }

  #close(reason: Error = new ConnectionLostError()): void {
    this.#ended.abort(reason);
    this.#closed.resolve(reason);
  }

  /** Waits for the step, but fails with the reason of the connection's end as soon as the connection ends. */
  async #orEnded<T>(step: Promise<T>): Promise<T> {
    return abortable(step, this.#ended.signal);
  }
}

/** The caller reconnects, subscribes again and sets deadlines. The cache of numbers would be 65,536 small buffers. */
const ours = {
  manualConnect: true,
  reconnectPeriod: 0,
  resubscribe: false,
  connectTimeout: 2 ** 31 - 1,
  timerVariant: 'native',
  writeCache: false,
} satisfies IClientOptions;

function refusal(what: string, reason = 0): BrokerRefusedError | undefined {
  return reason === 0 ? undefined : new BrokerRefusedError(what, reason);
}
