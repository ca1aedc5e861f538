import * as z from 'zod';

import { brokerLogin, topic } from '../mqtt/settings.ts';
import { settingsOf } from '../system/settings/settings.ts';
import { tlsFiles } from '../system/settings/tls-files.ts';
import { address, byteRate, byteSize, dailyWindow, duration, flag, text } from '../system/settings/values.ts';
import type { DailyWindow } from '../system/time/daily-window.ts';

const messagingSchema = z.strictObject({
  url: address(['mqtts', 'mqtt']).meta({ description: 'The broker', examples: ['mqtts://broker.example.com:8883'] }),
  client_id: text()
    .optional()
    .meta({
      description: 'Client ID at the broker; by default derived from the serial number',
      examples: ['gateway-0001'],
    }),
  ...brokerLogin,
  topic_id: text('a text without "/"')
    .regex(/^[^/#+\0]+$/, 'a text without "/", "#" and "+"')
    .optional()
    .meta({
      description: 'Stands for {topic_id} in the topics',
      examples: ['a1b2'],
    }),
  activate_topic: topic()
    .default('v1.json')
    .describe(
      'Topics of the activation, of all other requests, and of replies. The broker must permit this gateway to ' +
        'publish to the first two, and to subscribe to the third',
    ),
  request_topic: topic().default('v1.{topic_id}.json'),
  reply_topic: topic().default('v1.{topic_id}.reply.json'),
  protocol_version: z
    .literal([5, 4], { error: '5, or 4 for MQTT 3.1.1' })
    .default(5)
    .describe('5, or 4 for MQTT 3.1.1. With 4, the service must know reply_topic'),
  status_topic: topic()
    .optional()
    .meta({
      description: 'Topic on which the agent reports that it is online, and the broker reports that it is offline',
      examples: ['gateways/{topic_id}/status'],
    }),
  wake_topic: topic()
    .optional()
    .meta({
      description:
        'A message on this topic makes the agent check for updates immediately, at most once per splay of ' +
        '[update]; with either transport',
      examples: ['gateways/{topic_id}/wake'],
    }),
  keep_alive: duration('5s', '12h')
    .default('1m')
    .describe('A broker that sends nothing for longer counts as disconnected'),
  session_expiry: duration('0s').default('1h').describe('How long the broker keeps replies for a disconnected agent'),
  request_timeout: duration('1s', '10m').default('1m').describe('Until the reply, or the start of a firmware transfer'),
  max_message: byteSize('64KiB', '256MiB').default('64MiB').describe('A larger firmware text needs transport "rest"'),
  firmware_transport: z
    .enum(['rest', 'messaging'])
    .optional()
    .meta({
      description: 'Transport for firmware, "rest" or "messaging"; by default as transport',
      examples: ['messaging'],
    }),
});

const rate = byteRate('1KiB', '1024MiB');
const rateRow = z.strictObject({ window: dailyWindow().optional(), rate });
const maxRates = z.union([rate, z.array(rateRow).max(24)]);

export const serviceSchema = z.strictObject({
  url: address(['https', 'http']).meta({
    description:
      'Address of the provisioning service. The proxy is not a setting: set HTTPS_PROXY, HTTP_PROXY and ' +
      'NO_PROXY in the daemon’s environment (systemctl edit thing-agent). Connections to brokers use no proxy',
    examples: ['https://things.example.com'],
  }),
  insecure: flag()
    .default(false)
    .describe(
      'Permits http:// and, for messaging, mqtt:// to another machine. An attacker on the network can then ' +
        'read the API key, and offer older releases',
    ),
  transport: z.enum(['rest', 'messaging']).default('rest').describe('Form of the provisioning operations'),
  key_on_provisioning: flag().default(true).describe('Send X-ApiKey on provisioning calls too, once there is one'),
  property_text: z
    .enum(['plain', 'json'])
    .default('plain')
    .describe('A property value that is a text is sent as it is ("plain") or as a JSON string ("json")'),
  max_rate: maxRates.optional().meta({
    description:
      'Limit for all firmware downloads together, also manual ones. A change applies to the next download. As ' +
      'a list, the first row whose window (local time) matches applies. A row without a window applies to the ' +
      'rest of the day, which is unlimited without such a row. While the clock is unsynchronized, the lowest ' +
      'limit applies',
    examples: ['200KiB/s', [{ window: '08:00-18:00', rate: '50KiB/s' }, { rate: '1MiB/s' }]],
  }),
  ...tlsFiles(''),
  timeouts: z
    .strictObject({
      connect: duration('1s').default('10s').describe('Until the connection is established'),
      first_byte: duration('1s').default('1m').describe('Until the first byte of the reply'),
      idle: duration('1s').default('1m').describe('Between two chunks of a reply'),
      total: duration('1s').default('2m').describe('For a call with its reply'),
      transfer: duration('1s').default('1d').describe('For a firmware image'),
    })
    .prefault({}),
  messaging: messagingSchema
    .optional()
    .describe('The messaging form (JSON-RPC over MQTT), for transport = "messaging"'),
});

export type ServiceSettings = ReturnType<typeof serviceSettings>;

export interface MaxRate {
  /** If omitted, at any time. */
  readonly window: DailyWindow | undefined;
  readonly bytesPerSecond: number;
}

/** In all topics `{topic_id}` is filled in. */
export type ServiceMessagingSettings = ReturnType<typeof messagingSettings>;

/** `[service]` */
export function serviceSettings(written: z.output<typeof serviceSchema>) {
  const { max_rate: rates, messaging } = written;
  const {
    url,
    transport,
    keyOnProvisioning,
    propertyText,
    timeouts: deadlines,
    ...others
  } = settingsOf(serviceSchema, written);
  const { caFile, clientCertificateFile, clientKeyFile } = others;
  return {
    url: url.replace(/(?<!\/)\/+$/, ''),
    transport,
    keyOnProvisioning,
    propertyText,
    /** The first whose window it is bounds what a download takes; none: nothing does. */
    maxRates: ratesOf(rates),
    /** PEM files. They are read for each connection, so that they can be replaced. */
    tls: { caFile, clientCertificateFile, clientKeyFile },
    deadlines,
    messaging: messaging === undefined ? undefined : messagingSettings(messaging, transport),
  };
}

function ratesOf(written: z.output<typeof serviceSchema>['max_rate'] = []): readonly MaxRate[] {
  const rows = typeof written === 'string' ? [{ rate: written }] : written;
  return rows
    .map((row) => settingsOf(rateRow, row))
    .map(({ window, rateBytesPerSecond: bytesPerSecond }) => ({ window, bytesPerSecond }));
}

function messagingSettings(written: z.output<typeof messagingSchema>, transport: 'rest' | 'messaging') {
  const {
    caFile,
    clientCertificateFile,
    clientKeyFile,
    topicId = '',
    activateTopic,
    requestTopic,
    replyTopic,
    statusTopic,
    wakeTopic,
    firmwareTransport = transport,
    ...others
  } = settingsOf(messagingSchema, written);
  const topic = (text: string): string => text.replaceAll('{topic_id}', () => topicId);
  const isAsked = transport === 'messaging' || firmwareTransport === 'messaging';
  return {
    ...others,
    firmwareTransport,
    /** Read for each connection, as is the password, so that they can be replaced. */
    tls: { caFile, clientCertificateFile, clientKeyFile },
    topics: {
      activate: topic(activateTopic),
      request: topic(requestTopic),
      /** Without topic, no requests are made in this form. */
      reply: isAsked ? topic(replyTopic) : undefined,
      status: statusTopic === undefined ? undefined : topic(statusTopic),
      wake: wakeTopic === undefined ? undefined : topic(wakeTopic),
    },
  };
}
