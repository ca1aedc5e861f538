import * as z from 'zod';

import { settingsOf } from '../system/settings/settings.ts';
import {
  absolutePath,
  address,
  byteRate,
  byteSize,
  dailyWindow,
  duration,
  flag,
  text,
} from '../system/settings/values.ts';
import type { DailyWindow } from '../system/time/daily-window.ts';

const tlsShape = {
  ca_file: absolutePath().optional().describe('Authorities to trust instead of the system’s'),
  client_certificate_file: absolutePath('/etc/thing-agent/client.pem').optional(),
  client_key_file: absolutePath('/etc/thing-agent/client.key').optional(),
};

const topic = () => text('a topic without wildcards').regex(/^[^#+\0]+$/, 'a topic without wildcards');

const messagingSchema = z.strictObject({
  url: address(['mqtts', 'mqtt']),
  protocol_version: z
    .literal([5, 4], { error: '5, or 4 for MQTT 3.1.1' })
    .default(5)
    .describe('Of MQTT: 5, or 4 for MQTT 3.1.1'),
  client_id: text().optional().describe('Made from the serial number if left out'),
  username: text().optional(),
  password_file: absolutePath('/etc/thing-agent/mqtt-password').optional(),
  ...tlsShape,
  topic_id: text('a text without "/"')
    .regex(/^[^/#+\0]+$/, 'a text without "/", "#" and "+"')
    .optional(),
  activate_topic: topic().default('v1.json'),
  request_topic: topic().default('v1.{topic_id}.json'),
  reply_topic: topic().default('v1.{topic_id}.reply.json'),
  status_topic: topic().optional().describe('Where the agent tells that it is online, and the broker that it is not'),
  wake_topic: topic()
    .optional()
    .describe(
      'A message makes the agent look for its version now, at most once per update.splay; with either transport',
    ),
  keep_alive: duration('5s', '12h').default('1m').describe('A broker that is silent for longer counts as gone'),
  session_expiry: duration('0s').default('1h').describe('How long the broker keeps replies for an agent that is away'),
  request_timeout: duration('1s', '10m').default('1m').describe('Until the reply, or the beginning of a firmware'),
  max_message: byteSize('64KiB', '256MiB')
    .default('64MiB')
    .describe('The largest firmware text; larger ones need REST'),
  firmware_transport: z.enum(['rest', 'messaging']).optional().describe('As service.transport if left out'),
});

const rate = () => byteRate('1KiB', '1024MiB');

const maxRates = z.union([rate(), z.array(z.strictObject({ window: dailyWindow().optional(), rate: rate() })).max(24)]);

export const serviceSchema = z.strictObject({
  url: address(['https', 'http']).describe('{base_url} of the provisioning service'),
  insecure: flag()
    .default(false)
    .describe('Permits http:// and mqtt:// to another machine: the API key travels unprotected'),
  transport: z.enum(['rest', 'messaging']).default('rest').describe('Form of the provisioning operations'),
  key_on_provisioning: flag().default(true).describe('Send X-ApiKey on provisioning calls too, once there is one'),
  property_text: z.enum(['plain', 'json']).default('plain').describe('How a text is sent as a property value'),
  max_rate: maxRates.optional().describe('Of a download; a list is of times of day, local, and its first that fits'),
  ...tlsShape,
  deadlines: z
    .strictObject({
      connect: duration('1s').default('10s'),
      first_byte: duration('1s').default('1m'),
      idle: duration('1s').default('1m').describe('Between two chunks'),
      whole: duration('1s').default('2m').describe('Of a call with its reply'),
      transfer: duration('1s').default('1d').describe('Of a firmware'),
    })
    .prefault({}),
  messaging: messagingSchema.optional(),
});

export type ServiceSettings = ReturnType<typeof serviceSettings>;

export interface MaxRate {
  /** Undefined: at any time. */
  readonly window: DailyWindow | undefined;
  readonly bytesPerSecond: number;
}

/** In all topics `{topic_id}` is filled in. */
export type ServiceMessagingSettings = ReturnType<typeof messagingSettings>;

/** `[service]` */
export function serviceSettings(written: z.output<typeof serviceSchema>) {
  const { max_rate: rates, messaging } = written;
  const { url, transport, keyOnProvisioning, propertyText, deadlines, ...others } = settingsOf(serviceSchema, written);
  const { caFile, clientCertificateFile, clientKeyFile } = others;
  return {
    url: url.replace(/(?<!\/)\/+$/, ''),
    transport,
    keyOnProvisioning,
    propertyText,
    /** The first whose window it is bounds what a download takes; none: nothing does. */
    maxRates: ratesOf(rates),
    tls: { caFile, clientCertificateFile, clientKeyFile },
    deadlines,
    messaging: messaging === undefined ? undefined : messagingSettings(messaging, transport),
  };
}

const rateRow = z.strictObject({ window: dailyWindow().optional(), rate: rate() });

function ratesOf(written: z.output<typeof serviceSchema>['max_rate'] = []): readonly MaxRate[] {
  const rows = typeof written === 'string' ? [{ rate: written }] : written;
  return rows
    .map((row) => settingsOf(rateRow, row))
    .map(({ window, rateBytesPerSecond: bytesPerSecond }) => ({ window, bytesPerSecond }));
}

function messagingSettings(written: z.output<typeof messagingSchema>, transport: 'rest' | 'messaging') {
  const {
    topicId = '',
    caFile,
    clientCertificateFile,
    clientKeyFile,
    ...messaging
  } = settingsOf(messagingSchema, written);
  const { activateTopic, requestTopic, replyTopic, statusTopic, wakeTopic } = messaging;
  const topic = (text: string): string => text.replaceAll('{topic_id}', () => topicId);
  return {
    ...messaging,
    tls: { caFile, clientCertificateFile, clientKeyFile },
    activateTopic: topic(activateTopic),
    requestTopic: topic(requestTopic),
    replyTopic: topic(replyTopic),
    statusTopic: statusTopic === undefined ? undefined : topic(statusTopic),
    wakeTopic: wakeTopic === undefined ? undefined : topic(wakeTopic),
    firmwareTransport: messaging.firmwareTransport ?? transport,
  };
}
