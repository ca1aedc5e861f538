import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

import type * as z from 'zod';

import { controlHelp } from './control.ts';
import { faultSchema } from './faults.ts';
import { fileContent, randomContent } from './firmware-content.ts';
import { plainStyle } from './firmware-text.ts';
import type { TextStyle } from './firmware-text.ts';
import { MessagingSide } from './messaging.ts';
import { startStandIn } from './stand-in.ts';
import type { StandIn, StandInOptions } from './stand-in.ts';
import { textFile } from './text-file.ts';
import type { VersionSetup, World } from './world.ts';

const faults = faultSchema.options
  .map((option) => {
    const { kind, ...others } = option.shape;
    const members = Object.entries(others as Record<string, z.ZodType>).map(([name, type]) =>
      type.safeParse(undefined).success ? `${name}?` : name,
    );
    return `  ${[kind.value, ...members].join(' ').padEnd(38)}${option.description ?? ''}`;
  })
  .join('\n');

const help = `A simulator of the provisioning service, written from its interface description.

usage: npm run service -- [options]

  --port N              default 8080; 0: any free port
  --host HOST           127.0.0.1 if not given
  --version ID=FILE     a version whose firmware is FILE, a Mender Artifact or an image; may be repeated
  --version ID=random:N a version whose firmware is N random bytes (k, M and G are understood)
  --text ID=FILE        a version whose firmware text is FILE as it stands, sent as fast as it can be read
  --current ID          what a new thing is expected to run; the first version if not given
  --target ID           what things are to switch to; what each one has, if not given
  --updates ID=ID,ID    to which versions a thing can switch from one; may be repeated
  --encoding E          base64 (default), base64url or hex
  --line-length N       break the encoded text into lines
  --escapes E           none (default), solidus (\\/), unicode (\\u0041) or mixed
  --etag E              strong (default), weak or none
  --no-ranges           always send the whole firmware
  --no-content-length   send firmware in chunks
  --key-required W      values (default: properties and datapoints) or everything
  --tls-cert FILE --tls-key FILE [--tls-client-ca FILE]
  --broker URL          speak the messaging form too, through this MQTT broker: mqtt(s)://[user:password@]host[:port]
  --broker-ca FILE      the authority of an mqtts broker, if it is its own
  --topic-id ID         a1b2 if not given: requests come on v1.ID.json, replies go to v1.ID.reply.json
  --base-path PATH      before every path, like /api
  --quiet               do not print the calls

While it runs, it is told what to do by HTTP, for instance with curl:
${controlHelp}

Operations: activate currentVersion targetVersion firmware updates switchTo property setProperty postDatapoints, or any.
Faults (members with ? may be left out; see test/fakes/service/faults.ts):
${faults}
`;

const options = {
  port: { type: 'string', default: '8080' },
  host: { type: 'string', default: '127.0.0.1' },
  version: { type: 'string', multiple: true, default: [] as string[] },
  text: { type: 'string', multiple: true, default: [] as string[] },
  current: { type: 'string' },
  target: { type: 'string' },
  updates: { type: 'string', multiple: true, default: [] as string[] },
  encoding: { type: 'string', default: plainStyle.encoding },
  'line-length': { type: 'string', default: '0' },
  escapes: { type: 'string', default: plainStyle.escapes },
  etag: { type: 'string', default: 'strong' },
  'no-ranges': { type: 'boolean', default: false },
  'no-content-length': { type: 'boolean', default: false },
  'key-required': { type: 'string', default: 'values' },
  'tls-cert': { type: 'string' },
  'tls-key': { type: 'string' },
  'tls-client-ca': { type: 'string' },
  broker: { type: 'string' },
  'broker-ca': { type: 'string' },
  'topic-id': { type: 'string', default: 'a1b2' },
  'base-path': { type: 'string', default: '' },
  quiet: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const;

type Values = ReturnType<typeof parse>;

function parse(args: readonly string[]) {
  return parseArgs({ args: [...args], options }).values;
}

function standInOptions(values: Values): StandInOptions {
  const style: Partial<TextStyle> = {
    encoding: oneOf('encoding', values.encoding, ['base64', 'base64url', 'hex']),
    escapes: oneOf('escapes', values.escapes, ['none', 'solidus', 'unicode', 'mixed']),
    lineLength: Number(values['line-length']),
  };
  const [cert, key, clientCa] = [values['tls-cert'], values['tls-key'], values['tls-client-ca']].map(
    (path) => path && readFileSync(path, 'utf8'),
  );
  return {
    host: values.host,
    port: Number(values.port),
    basePath: values['base-path'],
    versions: [...values.version.map((text) => version(text, style)), ...values.text.map((text) => readyText(text))],
    updates: Object.fromEntries(values.updates.map((text) => updates(text))),
    etag: oneOf('etag', values.etag, ['strong', 'weak', 'none']),
    ranges: !values['no-ranges'],
    contentLength: !values['no-content-length'],
    keyRequired: oneOf('key-required', values['key-required'], ['values', 'everything']),
    ...(values.current === undefined ? {} : { currentVersionId: values.current }),
    ...(values.target === undefined ? {} : { targetVersionId: values.target }),
    ...(cert === undefined || key === undefined ? {} : { tls: { cert, key, clientCa } }),
  };
}

function version(text: string, style: Partial<TextStyle>): VersionSetup {
  const [id, source] = halves('version', text);
  const random = /^random:(\d+)([kMG]?)$/.exec(source);
  const unit = { '': 1, k: 2 ** 10, M: 2 ** 20, G: 2 ** 30 }[random?.[2] ?? ''] ?? 1;
  return { id, style, firmware: random === null ? fileContent(source) : randomContent(Number(random[1]) * unit) };
}

function readyText(text: string): VersionSetup {
  const [id, path] = halves('text', text);
  return { id, text: textFile(path) };
}

function updates(text: string): [string, string[]] {
  const [from, to] = halves('updates', text);
  return [from, to.split(',')];
}

function halves(option: string, text: string): [string, string] {
  const middle = text.indexOf('=');
  if (middle < 1) throw new TypeError(`--${option} wants ID=SOMETHING`);
  return [text.slice(0, middle), text.slice(middle + 1)];
}

function oneOf<const T extends string>(option: string, value: string, choices: readonly T[]): T {
  const choice = choices.find((one) => one === value);
  if (choice === undefined) throw new TypeError(`--${option} is one of ${choices.join(', ')}`);
  return choice;
}

async function run(values: Values): Promise<void> {
  const service: StandIn = await startStandIn({
    ...standInOptions(values),
    ...(values.quiet ? {} : { onCall: (call) => console.log(`${call.status || '---'} ${call.method} ${call.path}`) }),
  });
  const side = values.broker === undefined ? undefined : await messagingSide(values, values.broker, service.world);
  console.log(`the simulator listens on ${service.url} (Ctrl-C stops it, --help explains it)`);
  if (side !== undefined) console.log(`and on ${side.activateTopic} and ${side.requestTopic} of the broker`);
  const stop = Promise.withResolvers<void>();
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => stop.resolve());
  await stop.promise;
  await side?.[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
}

async function messagingSide(values: Values, url: string, world: World): Promise<MessagingSide> {
  const ca = values['broker-ca'];
  return MessagingSide.start(world, {
    url,
    topicId: values['topic-id'],
    ...(ca === undefined ? {} : { client: { ca: readFileSync(ca, 'utf8') } }),
    ...(values.quiet ? {} : { onRequest: ({ method, topic }) => console.log(`RPC ${method} on ${topic}`) }),
  });
}

try {
  const values = parse(process.argv.slice(2));
  if (values.help) console.log(help);
  else await run(values);
} catch (error) {
  if (!(error instanceof Error)) throw error;
  console.error(`${error.message}\n(--help explains the options)`);
  process.exitCode = 64;
}
