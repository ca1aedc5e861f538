import { constants, type Stats } from 'node:fs';
import { access, stat } from 'node:fs/promises';

import type { Environment } from '../system/environment.ts';
import { describeError, systemErrorCode } from '../system/errors.ts';
import { type Finding, findWarnings } from './cross-check.ts';
import type { ConfigProblem } from './errors.ts';
import { describeValue, keyPath } from './file/problems.ts';
import { applyEnvironment, examineConfig, inOrder, readConfigText, withLines } from './read-config.ts';
import type { ConfigFile, SoundTables } from './schema/schema.ts';

export interface ConfigCheck {
  /** In the order of the file. */
  readonly problems: readonly ConfigProblem[];
  readonly warnings: readonly ConfigProblem[];
}

/**
 * Goes further than loading: looks at what the configuration names, too, and tells everything at once. Throws ConfigError
 * only where there is no file, or no TOML in it.
 */
export async function checkConfig(path: string, environment: Environment): Promise<ConfigCheck> {
  const text = await readConfigText(path);
  const { file, sound, problems } = examineConfig(path, text);
  const found = [...(await scheduleFindings(sound)), ...(await referenceFindings(sound))];
  const warnings = file === undefined ? [] : [...applyEnvironment(file, environment).overruled, ...findWarnings(file)];
  return { problems: inOrder([...problems, ...withLines(found, text)]), warnings: withLines(warnings, text) };
}

async function scheduleFindings({ update }: SoundTables): Promise<readonly Finding[]> {
  const { isCronExpression } = await import('../system/cron.ts');
  if (update === undefined || isCronExpression(update.schedule)) return [];
  const path = ['update', 'schedule'];
  const message = `update.schedule: expected a cron expression such as "*/15 * * * *", found ${describeValue(update.schedule)}`;
  return [{ path, message }];
}

async function referenceFindings(tables: SoundTables): Promise<readonly Finding[]> {
  const found: Finding[] = [];
  for (const reference of references(tables)) {
    const why = await examine(reference);
    if (why === undefined) continue;
    found.push({ path: reference.path, message: `${keyPath(reference.path)}: ${reference.file} ${why}` });
  }
  return found;
}

type Need = 'readable file' | 'program' | 'slot' | 'device';

interface Reference {
  readonly path: readonly PropertyKey[];
  readonly file: string;
  readonly need: Need;
}

function references({ service, device, trust, targets }: SoundTables): readonly Reference[] {
  const all: { path: readonly PropertyKey[]; file: string | undefined; need: Need }[] = [
    ...tlsReferences(['service'], service ?? {}),
    ...tlsReferences(['service', 'messaging'], service?.messaging ?? {}),
    {
      path: ['service', 'messaging', 'password_file'],
      file: service?.messaging?.password_file,
      need: 'readable file',
    },
    { path: ['device', 'serial_number_file'], file: device?.serial_number_file, need: 'readable file' },
    { path: ['device', 'factory_version_file'], file: device?.factory_version_file, need: 'readable file' },
    ...(trust?.keys ?? []).map((key, index) => ({
      path: ['trust', 'keys', index],
      file: key,
      need: 'readable file' as const,
    })),
    ...Object.entries(targets ?? {}).flatMap(([name, target]) => targetReferences(['targets', name], target)),
  ];
  return all.flatMap(({ path, file, need }) => (file === undefined ? [] : [{ path, file, need }]));
}

interface TlsFiles {
  readonly ca_file?: string | undefined;
  readonly client_certificate_file?: string | undefined;
  readonly client_key_file?: string | undefined;
}

function tlsReferences(table: readonly string[], files: TlsFiles) {
  const keys = ['ca_file', 'client_certificate_file', 'client_key_file'] as const;
  return keys.map((key) => ({ path: [...table, key], file: files[key], need: 'readable file' as const }));
}

function targetReferences(table: readonly string[], target: ConfigFile['targets'][string]): readonly Reference[] {
  if (target.kind === 'mcu') return [{ path: [...table, 'port'], file: target.port, need: 'device' }];
  const slots = (['A', 'B'] as const).map((slot) => ({
    path: [...table, 'slots', slot],
    file: target.slots[slot],
    need: 'slot' as const,
  }));
  if (target.bootloader === undefined) return slots;
  return [...slots, ...bootloaderReferences([...table, 'bootloader'], target.bootloader)];
}

type Bootloader = NonNullable<Extract<ConfigFile['targets'][string], { kind: 'slots' }>['bootloader']>;

function bootloaderReferences(table: readonly string[], bootloader: Bootloader): readonly Reference[] {
  switch (bootloader.kind) {
    case 'uboot': {
      const file = bootloader.fw_env_config ?? '/etc/fw_env.config';
      return [{ path: [...table, 'fw_env_config'], file, need: 'readable file' }];
    }
    case 'grub':
      return [{ path: [...table, 'environment'], file: bootloader.environment, need: 'readable file' }];
    case 'tryboot':
      return [{ path: [...table, 'autoboot'], file: bootloader.autoboot, need: 'readable file' }];
    case 'custom':
      return [{ path: [...table, 'handler'], file: bootloader.handler, need: 'program' }];
  }
}

/** Why the file cannot be used; undefined: it can. */
async function examine({ file, need }: Reference): Promise<string | undefined> {
  try {
    const wrongKind = describeWrongKind(await stat(file), need);
    if (wrongKind !== undefined) return wrongKind;
    if (need === 'readable file' || need === 'program') {
      await access(file, need === 'program' ? constants.X_OK : constants.R_OK);
    }
    return undefined;
  } catch (error) {
    const code = systemErrorCode(error);
    if (code === 'ENOENT' || code === 'ENOTDIR') return 'does not exist';
    if (code === 'EACCES') return need === 'program' ? 'may not be executed' : 'may not be read';
    return `cannot be used: ${describeError(error)}`;
  }
}

function describeWrongKind(facts: Stats, need: Need): string | undefined {
  switch (need) {
    case 'device':
      return facts.isCharacterDevice() ? undefined : 'is not a character device';
    case 'slot':
      return facts.isFile() || facts.isBlockDevice() ? undefined : 'is no block device and no file';
    case 'program':
    case 'readable file':
      return facts.isFile() ? undefined : 'is not a file';
  }
}
