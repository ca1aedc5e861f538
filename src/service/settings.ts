import * as z from 'zod';

import { brokerLogin, topic } from '../mqtt/settings.ts';
import { settingsOf } from '../system/settings/settings.ts';
import { tlsFiles } from '../system/settings/tls-files.ts';
import { address, byteRate, byteSize, dailyWindow, duration, flag, text } from '../system/settings/values.ts';
import type { DailyWindow } from '../system/time/daily-window.ts';

const messagingSchema = z.strictObject({
  url: address(['mqtts', 'mqtt']).meta({
    description: 'Address of the MQTT broker',
    examples: ['mqtts://broker.example.com:8883'],
  }),
  client_id: text()
    .optional()
    .meta({
      description: 'MQTT client ID; by default derived from the serial number',
      examples: ['gateway-0001'],
    }),
  ...brokerLogin,
  topic_id: text('a text without "/"')
    .regex(/^[^/#+\0]+$/, 'a text without "/", "#" and "+"')
    .optional()
    .meta({
      description: 'Replaces {topic_id} in the topics',
      examples: ['a1b2'],
    }),
  activate_topic: topic()
    .default('v1.json')
    .describe('Topic to which the agent publishes its activation. The broker must allow that'),
  request_topic: topic()
    .default('v1.{topic_id}.json')
    .describe('Topic to which the agent publishes all other requests. The broker must allow that'),
  reply_topic: topic()
    .default('v1.{topic_id}.reply.json')
    .describe('Topic of the replies, to which the agent subscribes. The broker must allow that'),
  protocol_version: z
    .literal([5, 4], { error: '5, or 4 for MQTT 3.1.1' })
    .default(5)
    .describe(
      'Version of MQTT: 5, or 4 for MQTT 3.1.1. With 5, each request names its reply topic; with 4, the service must know it',
    ),
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
        'A message on this topic makes the agent check for updates immediately, with either transport, but at ' +
        'most once in the splay of [update]',
      examples: ['gateways/{topic_id}/wake'],
    }),
  keep_alive: duration('5s', '12h')
    .default('1m')
    .describe('The agent reconnects to a broker that sends nothing for longer (MQTT keep-alive)'),
  session_expiry: duration('0s')
    .default('1h')
    .describe('How long the broker stores replies for a disconnected agent; "0s": not at all'),
  request_timeout: duration('1s', '10m')
    .default('1m')
    .describe('Time limit from a request to its reply, or to the first part of a firmware image'),
  max_message: byteSize('64KiB', '256MiB')
    .default('64MiB')
    .describe('Largest message. Firmware whose encoded text is larger needs firmware_transport = "rest"'),
  firmware_transport: z
    .enum(['rest', 'messaging'])
    .optional()
    .meta({
      description: 'How firmware is downloaded, "rest" or "messaging"; by default, the same as transport',
      examples: ['messaging'],
    }),
});

const rate = byteRate('1KiB', '1024MiB');
const rateRow = z.strictObject({
  window: dailyWindow().optional().describe('Local time of day; by default, always'),
  rate: rate.describe('Highest rate in this window'),
});
const maxRates = z.union([rate, z.array(rateRow).max(24)]);

export const serviceSchema = z.strictObject({
  url: address(['https', 'http']).meta({
    description:
      'Address of the provisioning service. To use a proxy, set HTTPS_PROXY, HTTP_PROXY and NO_PROXY in the ' +
      'daemon’s environment (systemctl edit thing-agent). Connections to MQTT brokers use no proxy',
    examples: ['https://things.example.com'],
  }),
  insecure: flag()
    .default(false)
    .describe(
      'true: permits http:// and mqtt:// to other machines. An attacker on the network can then read the API key, ' +
        'and offer older releases',
    ),
  transport: z
    .enum(['rest', 'messaging'])
    .default('rest')
    .describe('How the agent calls the service: "rest" (HTTP), or "messaging" (JSON-RPC over MQTT)'),
  key_on_provisioning: flag()
    .default(true)
    .describe('true: sends the API key (X-ApiKey) with provisioning calls, too, once the gateway has one'),
  property_text: z
    .enum(['plain', 'json'])
    .default('plain')
    .describe('How a property value that is a text is sent: as it is ("plain"), or as a JSON string ("json")'),
  max_rate: maxRates.optional().meta({
    description:
      'Highest rate of all firmware downloads together, including manual ones; by default, unlimited. In a list, ' +
      'the first row whose window contains the local time applies. Without such a row, the rate is unlimited. ' +
      'While the clock is unsynchronized, the lowest rate applies. A change applies to the next download',
    examples: ['200KiB/s', [{ window: '08:00-18:00', rate: '50KiB/s' }, { rate: '1MiB/s' }]],
  }),
  ...tlsFiles(''),
  timeouts: z
    .strictObject({
      connect: duration('1s').default('10s').describe('For establishing a connection'),
      first_byte: duration('1s').default('1m').describe('From a request to the first byte of its response'),
      idle: duration('1s').default('1m').describe('Between two chunks of a response'),
      total: duration('1s').default('2m').describe('For a call and its whole response, other than firmware'),
      transfer: duration('1s').default('1d').describe('For the download of a firmware image'),
    })
    .prefault({})
    .describe('Time limits of HTTP calls to the service'),
  messaging: messagingSchema
    .optional()
    .describe('How the agent calls the service with transport = "messaging" (JSON-RPC over MQTT)'),
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
