import { fileOfBootloader } from '../../slots/settings.ts';
import type { ConfigFile, ValidTables } from '../schema/schema.ts';

/**
 * The requirements of a file in the configuration. `secret`, `page password`: only its owner may write it, and not
 * everyone may read it. `certificates`: only its owner may write it, and it is PEM. `program`: may be found in $PATH.
 * `own program`: runs with the agent's rights.
 */
export type RequiredFileKind =
  | 'readable file'
  | 'secret'
  | 'page password'
  | 'certificates'
  | 'release key'
  | 'mcuboot key'
  | 'handler'
  | 'own program'
  | 'program'
  | Place;
type Place = 'slot' | 'device';

export interface Reference {
  readonly path: readonly PropertyKey[];
  readonly file: string;
  readonly need: RequiredFileKind;
}

interface MaybeReference extends Omit<Reference, 'file'> {
  readonly file: string | undefined;
}

/** All files that the correct part of the tables names. */
export function referencesOf(tables: ValidTables): readonly Reference[] {
  const all: readonly MaybeReference[] = [
    ...serviceReferences(tables.service),
    { path: ['device', 'serial_number_file'], file: tables.device?.serial_number_file, need: 'readable file' },
    { path: ['device', 'factory_version_file'], file: tables.device?.factory_version_file, need: 'readable file' },
    ...(tables.trust?.keys ?? []).map((key, index) => keyReference(['trust', 'keys', index], key)),
    { path: ['system', 'reboot_command'], file: tables.system?.reboot_command[0], need: 'own program' },
    ...healthReferences(tables.update?.health),
    ...hookReferences(tables.hooks),
    ...webReferences(tables.web),
    ...Object.entries(tables.targets ?? {}).flatMap(([name, target]) => targetReferences(['targets', name], target)),
    ...telemetryReferences(tables),
  ];
  return all.flatMap(({ path, file, need }) => (file === undefined ? [] : [{ path, file, need }]));
}

interface NamedUser {
  readonly path: readonly PropertyKey[];
  readonly user: string;
}

/** All users of this machine that the tables name. */
export function referencedUsers({ update, hooks, sensors, properties, watch }: ValidTables): readonly NamedUser[] {
  const sources = (table: string, all: readonly { readonly source: object }[] = []) =>
    all.map(({ source }, index) => ({ path: [table, index, 'source', 'user'], place: source }));
  const places: readonly { readonly path: readonly PropertyKey[]; readonly place: object }[] = [
    { path: ['update', 'health', 'user'], place: update?.health ?? {} },
    ...Object.entries(hooks ?? {}).map(([name, place]) => ({ path: ['hooks', name, 'user'], place: place ?? {} })),
    ...sources('sensors', sensors),
    ...sources('properties', properties),
    ...(watch ?? []).map(({ output: into }, index) => ({ path: ['watch', index, 'output', 'user'], place: into })),
  ];
  return places.flatMap(({ path, place }) =>
    'user' in place && typeof place.user === 'string' ? [{ path, user: place.user }] : [],
  );
}

function serviceReferences(service: ValidTables['service']): readonly MaybeReference[] {
  const { messaging = {} } = service ?? {};
  return [...tlsReferences(['service'], service ?? {}), ...brokerReferences(['service', 'messaging'], messaging)];
}

function webReferences(page: ValidTables['web']): readonly MaybeReference[] {
  if (page === undefined) return [];
  return [
    { path: ['web', 'password_file'], file: page.password_file, need: 'page password' },
    { path: ['web', 'certificate_file'], file: page.certificate_file, need: 'certificates' },
    { path: ['web', 'key_file'], file: page.key_file, need: 'secret' },
    { path: ['web', 'client_ca_file'], file: page.client_ca_file, need: 'certificates' },
  ];
}

function healthReferences(health: ConfigFile['update']['health'] | undefined): readonly MaybeReference[] {
  if (health === undefined) return [];
  const path = ['update', 'health', 'commands'];
  return health.commands.map(([file], index) => ({ path: [...path, index], file, need: needOf(health) }));
}

function hookReferences(hooks: ConfigFile['hooks'] | undefined): readonly MaybeReference[] {
  return Object.entries(hooks ?? {}).flatMap(([name, hook]) => {
    if (hook === undefined) return [];
    return [{ path: ['hooks', name, 'command'], file: hook.command[0], need: needOf(hook) }];
  });
}

/** Returns the requirement for a program, depending on the user it runs as. */
function needOf({ user }: { readonly user?: string | undefined }): RequiredFileKind {
  return user === undefined ? 'own program' : 'program';
}

function keyReference(path: readonly PropertyKey[], key: ConfigFile['trust']['keys'][number]): MaybeReference {
  return { path, file: typeof key === 'string' ? key : key.file, need: 'release key' };
}

interface TlsFiles {
  readonly ca_file?: string | undefined;
  readonly client_certificate_file?: string | undefined;
  readonly client_key_file?: string | undefined;
}

function tlsReferences(table: readonly PropertyKey[], files: TlsFiles): readonly MaybeReference[] {
  const keys = ['ca_file', 'client_certificate_file', 'client_key_file'] as const;
  return keys.map((key) => ({
    path: [...table, key],
    file: files[key],
    need: key === 'client_key_file' ? 'secret' : 'certificates',
  }));
}

function brokerReferences(
  table: readonly PropertyKey[],
  { password_file: file, ...files }: TlsFiles & { readonly password_file?: string | undefined },
): readonly MaybeReference[] {
  return [...tlsReferences(table, files), { path: [...table, 'password_file'], file, need: 'secret' }];
}

function telemetryReferences({ sensors, properties, watch }: ValidTables): readonly MaybeReference[] {
  const sources = [...(sensors ?? []).map(sourceIn('sensors')), ...(properties ?? []).map(sourceIn('properties'))];
  const watched = (watch ?? []).map(({ output: into }, index) => runOrAsk(['watch', index, 'output'], into));
  return [...sources, ...watched].flat();
}

function sourceIn(table: 'sensors' | 'properties') {
  return ({ source }: ConfigFile['sensors'][number] | ConfigFile['properties'][number], index: number) =>
    runOrAsk([table, index, 'source'], source);
}

type Source = ConfigFile['sensors'][number]['source'] | ConfigFile['watch'][number]['output'];

function runOrAsk(table: readonly PropertyKey[], place: Source): readonly MaybeReference[] {
  if (place.kind === 'mqtt') return brokerReferences(table, place);
  if (place.kind !== 'exec' && place.kind !== 'command') return [];
  return [{ path: [...table, 'command'], file: place.command[0], need: needOf(place) }];
}

type Target = ConfigFile['targets'][string];

function targetReferences(table: readonly string[], target: Target): readonly MaybeReference[] {
  if (target.kind === 'package') return [];
  if (target.kind === 'mcu') {
    const { port, mcuboot_key_file: key, reset } = target;
    const program = typeof reset === 'string' ? undefined : reset.command[0];
    return [
      { path: [...table, 'port'], file: port, need: 'device' },
      { path: [...table, 'mcuboot_key_file'], file: key, need: 'mcuboot key' },
      { path: [...table, 'reset'], file: program, need: 'own program' },
    ];
  }
  const slots = (['A', 'B'] as const).map((slot): MaybeReference => ({
    path: [...table, 'slots', slot],
    file: target.slots[slot],
    need: 'slot',
  }));
  const named = target.bootloader && fileOfBootloader(target.bootloader);
  if (named === undefined) return slots;
  return [...slots, { path: [...table, 'bootloader', named.key], file: named.file, need: named.need }];
}
