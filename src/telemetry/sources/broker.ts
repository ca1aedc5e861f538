import type * as z from 'zod';

import { describeError } from '../../system/errors.ts';
import { readGuardedFile } from '../../system/files/guarded-file.ts';
import type { SettingsOf } from '../../system/settings/settings.ts';
import { absolutePath, address, duration, text } from '../../system/settings/values.ts';
import type { MqttSettings } from './mqtt.ts';
import { sourceFailed, sourceKind } from './source.ts';

/** The settings of a broker, for sources and for `[[watch]]`. */
export const brokerSettings = {
  url: address(['mqtt', 'mqtts']),
  username: text().optional(),
  password_file: absolutePath('/etc/thing-agent/mqtt-password').optional(),
};
export type BrokerSettings = SettingsOf<z.ZodObject<typeof brokerSettings>> & { readonly topic: string };

export const mqtt = sourceKind({
  name: 'mqtt',
  settings: {
    ...brokerSettings,
    topic: text().describe('With + and #'),
    silence: duration('1s', '7d').optional().describe('After this without a message it counts as failing'),
  },
  create: (settings) => ({
    kind: 'pushed',
    run: async (intake, signal) => {
      const { mqttSource } = await import('./mqtt.ts'); // few gateways need this package, so it is loaded late
      await mqttSource(await withPassword(settings, signal)).run(intake, signal);
    },
  }),
  place: ({ url, topic }) => `${url} ${topic}`,
  speaks: () => true,
});

/** The password is read each time: it may be changed while the agent runs. */
export async function withPassword(
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
