import { describeError } from '../../system/errors.ts';
import { readGuardedFile } from '../../system/files/guarded-file.ts';
import { mqttSource, publish } from './mqtt.ts';
import type { MqttSettings } from './mqtt.ts';
import { sourceFailed } from './source.ts';
import type { PushedSource } from './source.ts';

export interface BrokerSettings {
  readonly url: string;
  readonly topic: string;
  readonly username: string | undefined;
  readonly passwordFile: string | undefined;
}

/** Takes messages from a broker that may want a password. */
export function brokerSource(settings: BrokerSettings): PushedSource {
  return {
    kind: 'pushed',
    run: async (intake, signal) => mqttSource(await withPassword(settings, signal)).run(intake, signal),
  };
}

/** Publishes once to such a broker, for `[[watch]]`. Throws TelemetryError. */
export async function publishTo(settings: BrokerSettings, payload: string, signal: AbortSignal): Promise<void> {
  return publish(await withPassword(settings, signal), payload, signal);
}

/** The password is read each time: it may be changed while the agent runs. */
async function withPassword(
  { url, topic, username, passwordFile }: BrokerSettings,
  signal: AbortSignal,
): Promise<MqttSettings> {
  const password = passwordFile === undefined ? undefined : await readPassword(passwordFile, signal);
  return { url, topic, username, password };
}

const MAX_PASSWORD_BYTES = 4_096;

async function readPassword(path: string, signal: AbortSignal): Promise<string> {
  try {
    return (await readGuardedFile(path, { maxBytes: MAX_PASSWORD_BYTES }, signal)).toString('utf8').trim();
  } catch (error) {
    throw sourceFailed(path, describeError(error), error);
  }
}
