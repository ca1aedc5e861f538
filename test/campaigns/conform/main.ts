import { activationShape } from '../../../src/service/replies.ts';
import { countOption, numberOption, runTool, WrongUse } from '../../tool.ts';
import { conform, render } from './conform.ts';
import type { Result } from './conform.ts';
import type { MessagingOptions } from './messaging-probe.ts';

const help = `Tests a provisioning service in REST form, in messaging form, or in both, rule by rule, as a gateway uses it.

usage: npm run conform -- [--url URL] [--messaging BROKER --topic-id ID] --serial SERIAL [options]

  --url URL         base address of the REST form
  --messaging BROKER  MQTT broker of the messaging form: mqtt(s)://[USER:PASSWORD@]HOST[:PORT]
  --topic-id ID     the part of the topics v1.ID.json and v1.ID.reply.json
  --reply-topic TOPIC  topic of the replies, as in reply_topic of the agent's configuration (default: v1.ID.reply.json)
  --protocol 5|4    MQTT 5 (default) or MQTT 3.1.1
  --serial SERIAL   serial number of a test thing. The run activates it several times, so that its present API key
                    becomes invalid, confirms its current version, and in REST form writes a property and datapoints
  --switch-to ID    another version: the run switches to it, activates again, and switches back
  --api-key KEY     API key of an earlier activation: the run checks that it is invalid at the end (REST), and cannot
                    see whether it was valid before. Other users see it in the list of processes; the variable
                    CONFORM_API_KEY hides it
  --version ID      version whose firmware is read (default: the target version)
  --property ID     property to write and read (default: conform)
  --property-json ID, --property-number ID, --property-text ID  properties of one type each (default: --property)
  --event ID        event that takes datapoints (default: conform)
  --large ID        version with a text of 128 MiB or more: the run measures its throughput (REST)
  --connections N   also make N calls at the same time, for example 200 (default: 0)
  --timeout SECONDS longest wait for a response, and between two pieces of a firmware (default: 60)
  --json            print the results as JSON
  --help            show this

A rule passes, gets a warning (the agent works with the service, but less well, or the rule could not be tested), or
fails. Warnings and failures come with request and response. API keys and the broker's password are not shown.
Authorities of your own: NODE_EXTRA_CA_CERTS=FILE.

exit codes: 0 no rule failed, 1 a rule failed, 64 wrong use
`;

const options = {
  url: { type: 'string' },
  messaging: { type: 'string' },
  'topic-id': { type: 'string' },
  'reply-topic': { type: 'string' },
  protocol: { type: 'string', default: '5' },
  serial: { type: 'string' },
  'api-key': { type: 'string' },
  version: { type: 'string' },
  'switch-to': { type: 'string' },
  property: { type: 'string', default: 'conform' },
  'property-json': { type: 'string' },
  'property-number': { type: 'string' },
  'property-text': { type: 'string' },
  event: { type: 'string', default: 'conform' },
  large: { type: 'string' },
  connections: { type: 'string', default: '0' },
  timeout: { type: 'string', default: '60' },
  json: { type: 'boolean', default: false },
} as const;

interface Broker {
  readonly messaging?: string | undefined;
  readonly 'topic-id'?: string | undefined;
  readonly 'reply-topic'?: string | undefined;
  readonly protocol: string;
}

function messagingOptions(values: Broker): MessagingOptions | undefined {
  const { messaging: url, 'topic-id': topicId, 'reply-topic': replyTopic, protocol } = values;
  if (url === undefined) {
    if ((topicId ?? replyTopic) === undefined) return undefined;
    throw new WrongUse('--topic-id and --reply-topic need --messaging, the broker of the topics');
  }
  if (!/^mqtts?:$/.test(URL.parse(url)?.protocol ?? ''))
    throw new WrongUse('--messaging must be the address of a broker, for example mqtts://broker.example.com');
  if (topicId === undefined || !/^[^/+#]+$/.test(topicId))
    throw new WrongUse('--topic-id must be the part of the topic v1.ID.json that stands for the gateway');
  return { url, topicId, replyTopic, protocolVersion: protocolVersion(protocol) };
}

function protocolVersion(protocol: string): 4 | 5 {
  if (protocol === '4') return 4;
  if (protocol === '5') return 5;
  throw new WrongUse('--protocol must be 5, or 4 for MQTT 3.1.1');
}

/** A key that cannot be sent would be refused without a call, as if it had become invalid. */
function earlierKey(key: string | undefined): string | undefined {
  if (key === undefined || activationShape.apiKey.safeParse(key).success) return key;
  throw new WrongUse('--api-key must be an API key that a service can return: ASCII characters, for a header');
}

function baseAddress(url: string | undefined): string | undefined {
  if (url === undefined) return undefined;
  const { protocol = '', username = '', password = '' } = URL.parse(url) ?? {};
  if (username !== '' || password !== '')
    throw new WrongUse('--url must not contain a user or password: a gateway sends only the API key');
  if (/^https?:$/.test(protocol)) return url;
  throw new WrongUse('--url must be the base address of the service, for example https://service.example.com');
}

await runTool(help, options, async (values) => {
  const { serial: serialNumber, json } = values;
  const url = baseAddress(values.url);
  const messaging = messagingOptions(values);
  if (url === undefined && messaging === undefined) throw new WrongUse('--url or --messaging is required');
  if (serialNumber === undefined || serialNumber === '')
    throw new WrongUse('--serial must be the serial number of a test thing');
  const results: Result[] = [];
  const conformOptions = {
    url,
    messaging,
    serialNumber,
    apiKey: earlierKey(values['api-key'] ?? process.env['CONFORM_API_KEY']),
    versionId: values.version,
    switchToId: values['switch-to'],
    largeVersionId: values.large,
    propertyId: values.property,
    propertyIds: {
      json: values['property-json'],
      number: values['property-number'],
      text: values['property-text'],
    },
    eventId: values.event,
    timeoutMs: numberOption('timeout', values.timeout, 0.1) * 1000,
    connections: countOption('connections', values.connections, 0),
  };
  for await (const result of conform(conformOptions)) {
    results.push(result);
    if (!json) console.log(render(result));
  }
  const count = (verdict: string): number => results.filter((result) => result.verdict === verdict).length;
  const counts = { passed: count('pass'), warnings: count('warning'), failures: count('failure') };
  if (json) console.log(JSON.stringify({ url, serialNumber, ...counts, results }, undefined, 2));
  else console.log(`\npassed: ${counts.passed}, warnings: ${counts.warnings}, failures: ${counts.failures}`);
  return counts.failures === 0 ? 0 : 1;
});
