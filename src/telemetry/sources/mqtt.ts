import { connect } from 'mqtt';
import type { MqttClient } from 'mqtt';

import { AgentError, describeError } from '../../system/errors.ts';
import { parseReading } from './parse-reading.ts';
import { sourceFailed } from './source.ts';
import type { PushedSource } from './source.ts';

const CONNECT_MS = 10_000;
/** With the connection. */
const PUBLISH_MS = 30_000;
const MAX_PAYLOAD_BYTES = 64 * 1024;

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
    run: async (onReading, signal) => {
      const subscribe = async (client: MqttClient): Promise<void> => {
        client.on('message', (_topic, payload) => {
          const reading = payload.byteLength > MAX_PAYLOAD_BYTES ? undefined : parseReading(payload.toString('utf8'));
          if (reading !== undefined) onReading(reading);
        });
        const [granted] = await client.subscribeAsync(topic, { qos: 1 });
        if (granted === undefined || granted.qos > 2) throw sourceFailed(url, `the broker refuses the topic ${topic}`);
        await Promise.withResolvers<never>().promise; // until the connection or the signal ends it
      };
      await connected(settings, subscribe, signal);
    },
  };
}

/** Publishes once, for `[[watch]]`. Throws TelemetryError. */
export async function publish(settings: MqttSettings, payload: string, signal: AbortSignal): Promise<void> {
  const late = new AbortController();
  const why = sourceFailed(settings.url, `the broker has not taken a message within ${PUBLISH_MS} ms`);
  const timer = setTimeout(() => late.abort(why), PUBLISH_MS);
  const send = async (client: MqttClient): Promise<unknown> =>
    client.publishAsync(settings.topic, payload, { qos: 1, retain: true });
  try {
    await connected(settings, send, AbortSignal.any([signal, late.signal]));
  } finally {
    clearTimeout(timer);
  }
}

/** A connection for as long as the work takes. The work ends with the connection, and with the signal. */
async function connected(
  { url, username, password }: MqttSettings,
  work: (client: MqttClient) => Promise<unknown>,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted();
  const client = connect(url, {
    connectTimeout: CONNECT_MS,
    reconnectPeriod: 0,
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
  });
  const open = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<never>();
  const onAbort = (): void => ended.reject(signal.reason);
  client.on('connect', () => open.resolve());
  client.on('error', (error) => ended.reject(sourceFailed(url, describeError(error), error)));
  client.on('close', () => ended.reject(sourceFailed(url, 'the connection was lost')));
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    await Promise.race([open.promise.then(async () => work(client)), ended.promise]);
  } catch (error) {
    signal.throwIfAborted();
    throw error instanceof AgentError ? error : sourceFailed(url, describeError(error), error);
  } finally {
    signal.removeEventListener('abort', onAbort);
    client.end(true); // not waited for: MQTT.js never tells it of a client that could not connect
  }
}
