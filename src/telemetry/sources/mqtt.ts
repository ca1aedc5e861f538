import { hash, randomBytes } from 'node:crypto';

import type { ConnectionDeps, Message, MqttConnection } from '../../mqtt/connection.ts';
import { describeReason } from '../../mqtt/describe-reason.ts';
import { BrokerRefusedError } from '../../mqtt/errors.ts';
import { dialBroker, openBroker } from '../../mqtt/open-broker.ts';
import type { BrokerLogin } from '../../mqtt/open-broker.ts';
import { LARGE_BYTES } from '../../mqtt/packet-guard.ts';
import { abortable } from '../../system/abortable.ts';
import { AgentError, describeError, systemErrorCode } from '../../system/errors.ts';
import { Deadline } from '../../system/time/deadline.ts';
import { RecentMap } from '../recent-map.ts';
import { parseReading } from './parse-reading.ts';
import { sourceFailed } from './source.ts';
import type { PushedSource, Reading } from './source.ts';

const CONNECT_MS = 10_000;
/** The deadline for the broker's answer to a subscription. */
const SUBSCRIBE_MS = 10_000;
/** The deadline for a publication, with its connection. */
const PUBLISH_MS = 30_000;
const KEEP_ALIVE_SECONDS = 60;

interface Topic extends BrokerLogin {
  readonly topic: string;
}

export interface MqttSettings extends Topic {
  /** How retained messages are used. */
  readonly retained: 'once' | 'skip';
}

/** Topics whose last message is remembered, by its hash. */
const MAX_TOPICS = 10_000;
const MAX_TOPIC_LENGTH = 1_024;

type Hearing = Pick<ConnectionDeps, 'admits' | 'onMessage' | 'rest'>;

/**
 * Takes messages from a broker; the payload is the reading. Throws when the connection is lost; the caller starts the
 * source again.
 */
export function mqttSource(settings: MqttSettings): PushedSource {
  const { url, topic } = settings;
  // outlives connections: the broker sends what it kept after each subscription
  const last = new RecentMap(MAX_TOPICS, () => ({ hash: '', units: new Map<string, string>() }));
  return {
    kind: 'pushed',
    run: async (intake, signal) => {
      const unusable = Promise.withResolvers<never>();
      unusable.promise.catch(() => {}); // its caller may no longer wait
      const take = ({ topic: from, content, isRetained }: Message): void => {
        if (from.length > MAX_TOPIC_LENGTH) {
          intake.drop('too-long', `a topic longer than ${MAX_TOPIC_LENGTH} characters`);
          return;
        }
        const known = last.get(from);
        const digest = hash('sha256', content, 'base64');
        if (isRetained && (settings.retained === 'skip' || known.hash === digest)) return;
        const read = (): Reading => {
          known.hash = digest; // only now: a message that comes too fast is not taken
          return parseReading(content.toString('utf8'), known.units);
        };
        intake.take(read, undefined, from);
      };
      const hearing: Hearing = {
        // reported when it starts: it may take hours
        admits: () => {
          intake.drop('too-long', `a message longer than ${LARGE_BYTES} bytes`);
          return false;
        },
        onMessage: (message) => {
          try {
            take(message);
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
export async function publish(settings: Topic, payload: string, signal: AbortSignal): Promise<void> {
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
  settings: BrokerLogin,
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

async function open(settings: BrokerLogin, hearing: Hearing, signal: AbortSignal): Promise<MqttConnection> {
  const dialing = dialBroker(settings.url);
  const late = (): Error => new Error(`no answer within ${CONNECT_MS} ms${dialing.answers}`);
  using deadline = new Deadline(CONNECT_MS, late, signal);
  const clientId = `thing-agent-${randomBytes(6).toString('hex')}`;
  const connect = { protocolVersion: 4, clientId, keepalive: KEEP_ALIVE_SECONDS } as const;
  return await openBroker(settings, { ...hearing, dialing, connect }, deadline.signal);
}

function reasonOf(error: unknown): string {
  if (!(error instanceof BrokerRefusedError))
    return isUntrusted(error) ? `${describeError(error)}; ${caAdvice}` : describeError(error);
  const { message, reason } = error;
  return `the broker ${message}: ${describeReason(reason)}`;
}

const caAdvice = 'set ca_file to the authority that issued the broker’s certificate';

/** True if no trusted authority issued the certificate: OpenSSL, "X509_STORE_CTX_get_error". */
function isUntrusted(error: unknown): boolean {
  return /^(UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|CERT_UNTRUSTED)/.test(systemErrorCode(error) ?? '');
}
