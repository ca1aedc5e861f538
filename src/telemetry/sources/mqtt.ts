import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';

import { MqttConnection } from '../../mqtt/connection.ts';
import type { ConnectionDeps, ConnectOptions } from '../../mqtt/connection.ts';
import { RefusedByBroker } from '../../mqtt/errors.ts';
import { dialBroker, openSocket } from '../../mqtt/open-socket.ts';
import { LARGE_BYTES } from '../../mqtt/packet-guard.ts';
import { abortable } from '../../system/abortable.ts';
import { AgentError, describeError } from '../../system/errors.ts';
import { secured } from '../../system/socket.ts';
import { Deadline } from '../../system/time/deadline.ts';
import type { BrokerSettings } from './broker.ts';
import { parseReading } from './parse-reading.ts';
import { sourceFailed } from './source.ts';
import type { PushedSource } from './source.ts';

const CONNECT_MS = 10_000;
/** The deadline for the broker's answer to a subscription. */
const SUBSCRIBE_MS = 10_000;
/** The deadline for a publication, with its connection. */
const PUBLISH_MS = 30_000;
const KEEP_ALIVE_SECONDS = 60;
/** Return codes: MQTT 3.1.1, section 3.2.2.3. */
const refusals = ['', 'version of MQTT', 'client id', 'it is unavailable', 'user name or password', 'not authorized'];

/** MQTT 3.1.1, section 4.7.1: brokers close the connection silently when they get any other filter. */
const topicFilter = /^(?:#|(?:\+|[^+#/]*)(?:\/(?:\+|[^+#/]*))*(?:\/#)?)$/;

export type MqttSettings = Omit<BrokerSettings, 'passwordFile'> & { readonly password: string | undefined };

type Hearing = Pick<ConnectionDeps, 'admits' | 'onMessage' | 'rest'>;

/**
 * Takes messages from a broker; the payload is the reading. Throws when the connection is lost; the caller starts the
 * source again.
 */
export function mqttSource(settings: MqttSettings): PushedSource {
  const { url, topic } = settings;
  return {
    kind: 'pushed',
    run: async (intake, signal) => {
      if (!topicFilter.test(topic)) throw sourceFailed(url, `${topic} has + or # where none may stand`);
      const unusable = Promise.withResolvers<never>();
      unusable.promise.catch(() => {}); // nobody may be waiting any more
      const hearing: Hearing = {
        // reported when it starts: it may take hours
        admits: () => {
          intake.drop('too-long', `a message longer than ${LARGE_BYTES} bytes`);
          return false;
        },
        onMessage: ({ content }) => {
          try {
            intake.take(() => parseReading(content.toString('utf8')));
          } catch (error) {
            unusable.reject(error);
          }
        },
        rest: (bytes) => intake.rest(bytes),
      };
      await connected(settings, hearing, signal, async (connection) => {
        const granted = await subscribe(connection, topic, signal);
        if (granted > 2) throw sourceFailed(url, `the broker refuses the topic ${topic}`);
        intake.connected();
        throw await Promise.race([connection.closed, unusable.promise]);
      });
    },
  };
}

/** Publishes once, for `[[watch]]`. Throws TelemetryError. */
export async function publish(settings: MqttSettings, payload: string, signal: AbortSignal): Promise<void> {
  const late = (): Error => sourceFailed(settings.url, `the broker has not taken a message within ${PUBLISH_MS} ms`);
  using deadline = new Deadline(PUBLISH_MS, late, signal);
  const { topic } = settings;
  const deaf: Hearing = { admits: () => false, onMessage: () => {} };
  await connected(settings, deaf, deadline.signal, async (connection) =>
    connection.publish({ topic, payload, retain: true }),
  );
}

/** Runs the work on a connection; the signal ends it. Throws the signal's reason, or AgentErrors. */
async function connected(
  settings: MqttSettings,
  hearing: Hearing,
  signal: AbortSignal,
  work: (connection: MqttConnection) => Promise<unknown>,
): Promise<void> {
  try {
    using connection = await open(settings, hearing, signal);
    await abortable(work(connection), signal);
  } catch (error) {
    signal.throwIfAborted();
    throw error instanceof AgentError ? error : sourceFailed(settings.url, reasonOf(error), error);
  }
}

async function subscribe(connection: MqttConnection, topic: string, signal: AbortSignal): Promise<number> {
  const late = (): Error => new Error(`no answer to the subscription within ${SUBSCRIBE_MS} ms`);
  using deadline = new Deadline(SUBSCRIBE_MS, late, signal);
  return await abortable(connection.subscribe(topic), deadline.signal);
}

async function open(settings: MqttSettings, hearing: Hearing, signal: AbortSignal): Promise<MqttConnection> {
  const url = new URL(settings.url);
  const dialing = dialBroker(url);
  const late = (): Error => new Error(`no answer within ${CONNECT_MS} ms${dialing.answers}`);
  using deadline = new Deadline(CONNECT_MS, late, signal);
  const startTls = (socket: Socket): Socket => secured(socket, url, {});
  const socket = await openSocket(url, { dialing, startTls }, deadline.signal);
  return await MqttConnection.open(socket, { ...hearing, connect: connectOptions(settings) }, deadline.signal);
}

function connectOptions({ username, password }: MqttSettings): ConnectOptions {
  return {
    protocolVersion: 4,
    clientId: `thing-agent-${randomBytes(6).toString('hex')}`,
    keepalive: KEEP_ALIVE_SECONDS,
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
  };
}

function reasonOf(error: unknown): string {
  if (!(error instanceof RefusedByBroker)) return describeError(error);
  const { message, reason } = error;
  return `the broker ${message}: ${refusals[reason] ?? `reason ${reason}`}`;
}
