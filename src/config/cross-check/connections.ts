import { parseListenAddress } from '../../web/settings.ts';
import type { Finding } from '../cross-check.ts';
import { findingAt } from '../file/problems.ts';
import type { ConfigFile } from '../schema/schema.ts';

interface TlsFiles {
  readonly client_certificate_file?: string | undefined;
  readonly client_key_file?: string | undefined;
}

interface Broker extends TlsFiles {
  readonly url: string;
  readonly username?: string | undefined;
  readonly password_file?: string | undefined;
}

type Path = readonly PropertyKey[];

export function* brokerConflicts(table: Path, broker: Broker): Generator<Finding> {
  yield* tlsConflicts(table, broker);
  if (new URL(broker.url).username !== '')
    yield findingAt([...table, 'url'], ' has a user name: set username and password_file instead');
  if (broker.password_file !== undefined && broker.username === undefined)
    yield findingAt([...table, 'password_file'], ' needs username as well');
}

function* tlsConflicts(table: Path, files: TlsFiles): Generator<Finding> {
  const names = ['client_certificate_file', 'client_key_file'] as const;
  const missing = names.find((name) => files[name] === undefined);
  const given = names.find((name) => files[name] !== undefined);
  if (missing !== undefined && given !== undefined) yield findingAt([...table, given], ` needs ${missing} as well`);
}

const topicKeys = ['activate_topic', 'request_topic', 'reply_topic', 'status_topic', 'wake_topic'] as const;

export function* serviceConflicts(service: ConfigFile['service']): Generator<Finding> {
  const { messaging } = service;
  yield* tlsConflicts(['service'], service);
  if (isPlain(service.url) && !service.insecure)
    yield findingAt(
      ['service', 'url'],
      ' is plain http to another machine: an attacker on the network can read the API key and offer ' +
        'older releases; write https://, or set service.insecure = true',
    );
  if (messaging !== undefined) yield* messagingConflicts(messaging, service.insecure);
  else if (service.transport === 'messaging')
    yield findingAt(['service', 'transport'], ' = "messaging" needs a table [service.messaging]');
}

function* messagingConflicts(
  messaging: NonNullable<ConfigFile['service']['messaging']>,
  isInsecure: boolean,
): Generator<Finding> {
  const table = ['service', 'messaging'];
  if (isPlain(messaging.url) && !isInsecure)
    yield findingAt(
      [...table, 'url'],
      ' is plain mqtt to another machine: an attacker on the network can read the API key and the ' +
        'password, and offer older releases; write mqtts://, or set service.insecure = true',
    );
  yield* brokerConflicts(table, messaging);
  for (const key of topicKeys) {
    if (messaging.topic_id === undefined && messaging[key]?.includes('{topic_id}') === true)
      yield findingAt([...table, key], ' contains {topic_id}: set service.messaging.topic_id');
  }
  for (const own of ['status_topic', 'wake_topic'] as const) {
    const other = topicKeys.find((key) => key !== own && messaging[key] === messaging[own]);
    if (messaging[own] !== undefined && other !== undefined)
      yield findingAt([...table, own], ` is the same as ${other}`);
  }
}

/** True if an address leads to another machine without TLS. */
export function isPlain(url: string): boolean {
  return /^(http|mqtt):/.test(url) && !/^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(new URL(url).hostname);
}

/** Files of the page, each with the file that it needs. */
const pageFiles = [
  ['certificate_file', 'key_file'],
  ['key_file', 'certificate_file'],
  ['client_ca_file', 'certificate_file'],
] as const;

/**
 * Refuses an open page: others may reach it only over TLS and with a proof of who they are; loopback is open to every
 * user of this machine.
 */
export function* webConflicts(web: ConfigFile['web']): Generator<Finding> {
  const { listen, certificate_file: certificate, client_ca_file: clientCa } = web;
  const wrong = (name: keyof ConfigFile['web'], why: string): Finding => findingAt(['web', name], why);
  for (const [file, needed] of pageFiles) {
    if (web[file] !== undefined && web[needed] === undefined) yield wrong(file, ` needs ${needed} as well`);
  }
  const isProtected = web.password_file !== undefined || clientCa !== undefined;
  const needed = 'certificate_file and key_file, and password_file or client_ca_file as well';
  if (isOpenToOthers(listen) && (certificate === undefined || !isProtected))
    yield wrong('listen', ` is not loopback: it needs ${needed}`);
  if (web.allow_operations && !isProtected)
    yield wrong('allow_operations', ' = true needs password_file or client_ca_file as well');
  else if (web.allow_operations && listen === undefined)
    yield wrong('allow_operations', ' = true has no effect without listen');
}

function isOpenToOthers(listen: string | undefined): boolean {
  const place = listen === undefined ? undefined : parseListenAddress(listen);
  return place?.kind === 'tcp' && !place.isLoopback;
}
