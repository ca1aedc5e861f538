import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';

import { MqttClient } from 'mqtt';
import type { IClientOptions } from 'mqtt';

import { ClientStream } from '../../mqtt/client-stream.ts';
import { openSocket } from '../../mqtt/open-socket.ts';
import { LARGE_BYTES } from '../../mqtt/packet-head.ts';
import { PublishSplitter } from '../../mqtt/publish-splitter.ts';
import { AgentError, describeError } from '../../system/errors.ts';
import { secured } from '../../system/socket.ts';
import { Deadline } from '../../system/time/deadline.ts';
import { parseReading } from './parse-reading.ts';
import { sourceFailed } from './source.ts';
import type { Intake, PushedSource } from './source.ts';

const CONNECT_MS = 10_000;
/** With the connection. */
const PUBLISH_MS = 30_000;
const PROTOCOL_VERSION = 4;
const TICKET_BYTES = 16;

export interface MqttSettings {
  /** `mqtt://` or `mqtts://`. */
  readonly url: string;
  /** With `+` and `#`. */
  readonly topic: string;
  readonly username: string | undefined;
  readonly password: string | undefined;
}

/** Messages on a broker: the payload is the reading. Throws when the connection is lost; whoever runs it begins again. */
export function mqttSource(settings: MqttSettings): PushedSource {
  const { url, topic } = settings;
  return {
    kind: 'pushed',
    run: async (intake, signal) => {
      await using connection = await Connection.open(settings, signal, intake);
      connection.onPayload((payload) => intake.take(() => parseReading(payload.toString('utf8'))));
      await connection.whileOpen(async (client) => {
        const [granted] = await client.subscribeAsync(topic, { qos: 1 });
        if (granted === undefined || granted.qos > 2) throw sourceFailed(url, `the broker refuses the topic ${topic}`);
        await Promise.withResolvers<never>().promise; // until the connection or the signal ends it
      });
    },
  };
}

/** Publishes once, for `[[watch]]`. Throws TelemetryError. */
export async function publish(settings: MqttSettings, payload: string, signal: AbortSignal): Promise<void> {
  const late = (): Error => sourceFailed(settings.url, `the broker has not taken a message within ${PUBLISH_MS} ms`);
  using deadline = new Deadline(PUBLISH_MS, late, signal);
  await using connection = await Connection.open(settings, deadline.signal);
  await connection.whileOpen(async (client) => client.publishAsync(settings.topic, payload, { qos: 1, retain: true }));
}

/** A connection to a broker that may say anything: every packet is judged before MQTT.js sees it. */
class Connection implements AsyncDisposable {
  readonly #settings: MqttSettings;
  readonly #signal: AbortSignal;
  readonly #stream: ClientStream;
  readonly #client: MqttClient;
  readonly #open = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<never>();

  private constructor(settings: MqttSettings, signal: AbortSignal, stream: ClientStream) {
    this.#settings = settings;
    this.#signal = signal;
    this.#stream = stream;
    this.#client = new MqttClient(() => stream, clientOptions(settings));
    this.#ended.promise.catch(() => {}); // nobody may wait any more
    const fail = (error: Error): void => this.#ended.reject(sourceFailed(settings.url, describeError(error), error));
    this.#client.on('connect', () => this.#open.resolve());
    this.#client.on('error', fail);
    stream.on('error', fail);
    this.#client.on('close', () => fail(new Error('the connection was lost')));
  }

  static async open(settings: MqttSettings, signal: AbortSignal, intake?: Intake): Promise<Connection> {
    const { url } = settings;
    using deadline = new Deadline(CONNECT_MS, () => new Error(`no answer within ${CONNECT_MS} ms`), signal);
    try {
      const startTls = (socket: Socket): Socket => secured(socket, new URL(url), {});
      const socket = await openSocket(new URL(url), { startTls }, deadline.signal);
      return new Connection(settings, signal, guardedStream(socket, intake));
    } catch (error) {
      signal.throwIfAborted();
      throw sourceFailed(url, describeError(error), error);
    }
  }

  /** What cannot be taken ends the connection. Of a large message, which was not kept, nothing is handed on. */
  onPayload(take: (payload: Buffer) => void): void {
    this.#client.on('message', (_topic, payload) => {
      try {
        if (this.#stream.redeem(payload) === undefined) take(payload);
      } catch (error) {
        this.#ended.reject(error);
      }
    });
  }

  /** The work ends with the connection, and with the signal. */
  async whileOpen(work: (client: MqttClient) => Promise<unknown>): Promise<void> {
    const onAbort = (): void => this.#ended.reject(this.#signal.reason);
    this.#signal.addEventListener('abort', onAbort, { once: true });
    try {
      this.#signal.throwIfAborted();
      await Promise.race([this.#open.promise.then(async () => work(this.#client)), this.#ended.promise]);
    } catch (error) {
      this.#signal.throwIfAborted();
      throw error instanceof AgentError ? error : sourceFailed(this.#settings.url, describeError(error), error);
    } finally {
      this.#signal.removeEventListener('abort', onAbort);
    }
  }

  /** Not waited for: MQTT.js never tells it of a client that could not connect. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#client.end(true);
    this.#stream.destroy();
  }
}

/** A large message is told when it is announced; its content passes by unseen. */
function guardedStream(socket: Socket, intake: Intake | undefined): ClientStream {
  const admits = (): boolean => {
    intake?.drop(`a message longer than ${LARGE_BYTES} bytes`);
    return false;
  };
  const newTicket = (): Buffer => randomBytes(TICKET_BYTES);
  const splitter = new PublishSplitter({ protocolVersion: PROTOCOL_VERSION, admits, newTicket });
  return new ClientStream(socket, splitter, { rest: (bytes) => intake?.rest(bytes) });
}

function clientOptions({ username, password }: MqttSettings): IClientOptions {
  return {
    protocolVersion: PROTOCOL_VERSION,
    protocolId: 'MQTT',
    clientId: `thing-agent-${randomBytes(6).toString('hex')}`,
    connectTimeout: CONNECT_MS,
    reconnectPeriod: 0,
    timerVariant: 'native',
    log: () => {},
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
  };
}
