import type { Finding } from '../cross-check.ts';
import { keyPath } from '../file/problems.ts';
import type { ConfigFile, ValidTables } from '../schema/schema.ts';

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
type Place = ConfigFile['sensors'][number]['source'] | ConfigFile['watch'][number]['output'];

/** Checks the brokers of sensors, properties and watches. */
export function measuringContradictions({ sensors, properties, watch }: ValidTables): readonly Finding[] {
  const places: readonly (readonly [Path, Place])[] = [
    ...(sensors ?? []).map(({ source }, index) => [['sensors', index, 'source'], source] as const),
    ...(properties ?? []).map(({ source }, index) => [['properties', index, 'source'], source] as const),
    ...(watch ?? []).map(({ output }, index) => [['watch', index, 'output'], output] as const),
  ];
  return places.flatMap(([path, place]) => (place.kind === 'mqtt' ? brokerContradictions(path, place) : []));
}

export function brokerContradictions(table: Path, broker: Broker): readonly Finding[] {
  const findings = [...tlsContradictions(table, broker)];
  const wrong = (key: keyof Broker, why: string): void => void findings.push(findingOf([...table, key], why));
  if (new URL(broker.url).username !== '') wrong('url', 'has a user name: set username and password_file instead');
  if (broker.password_file !== undefined && broker.username === undefined) {
    wrong('password_file', 'needs username as well');
  }
  return findings;
}

export function tlsContradictions(table: Path, files: TlsFiles): readonly Finding[] {
  const names = ['client_certificate_file', 'client_key_file'] as const;
  const missing = names.find((name) => files[name] === undefined);
  const given = names.find((name) => files[name] !== undefined);
  if (missing === undefined || given === undefined) return [];
  return [findingOf([...table, given], `needs ${missing} as well`)];
}

export function findingOf(path: Path, why: string): Finding {
  return { path, message: `${keyPath(path)} ${why}` };
}
