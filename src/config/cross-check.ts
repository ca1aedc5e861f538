import { durationMs } from '../system/settings/values.ts';
import { parseUtcTime } from '../system/time/utc-time.ts';
import { pageContradictions } from './cross-check-page.ts';
import { describeIdleStep } from './schedule-steps.ts';
import type { ConfigFile, SoundTables } from './schema/schema.ts';

/** A contradiction between settings; `path` is the one to change. */
export interface Finding {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** Finds contradictions between settings that are correct in themselves. */
export function findContradictions(tables: SoundTables): readonly Finding[] {
  const { service, system, update, trust, page, targets, sensors, properties } = tables;
  return [
    ...keyContradictions(trust?.keys ?? []),
    ...forgedReports(tables),
    ...(page === undefined ? [] : pageContradictions(page)),
    ...(service === undefined ? [] : serviceContradictions(service)),
    ...(targets === undefined || update === undefined ? [] : defaultTargetContradictions(targets, update)),
    ...targetContradictions(targets ?? {}),
    ...helperContradictions(system, targets ?? {}),
    ...sensorContradictions(sensors ?? [], properties ?? []),
  ];
}

function keyContradictions(keys: ConfigFile['trust']['keys']): readonly Finding[] {
  return keys.flatMap((key, index) => {
    if (typeof key === 'string' || key.not_before === undefined || key.not_after === undefined) return [];
    if ((parseUtcTime(key.not_before) ?? 0) < (parseUtcTime(key.not_after) ?? 0)) return [];
    return [{ path: ['trust', 'keys', index], message: `trust.keys[${index}]: not_after is not after not_before` }];
  });
}

/** Refuses what a helper cannot handle: it may not ask systemd to install a package. */
function helperContradictions(system: SoundTables['system'], targets: ConfigFile['targets']): readonly Finding[] {
  const [name] = Object.entries(targets).find(([, { kind }]) => kind === 'package') ?? [];
  if (system?.helper === undefined || name === undefined) return [];
  return [
    {
      path: ['system', 'helper'],
      message: `system.helper: a gateway with packages (targets.${name}) has no helper yet`,
    },
  ];
}

function serviceContradictions(service: ConfigFile['service']): readonly Finding[] {
  const { messaging } = service;
  const findings = [...tlsContradictions(['service'], service)];
  if (isPlainHttp(service.url) && !service.insecure) findings.push(plainHttp);
  if (messaging !== undefined && isPlainMqtt(messaging.url) && !service.insecure) findings.push(plainMqtt);
  if (messaging === undefined) {
    if (service.transport === 'messaging') {
      findings.push({
        path: ['service', 'transport'],
        message: 'service.transport = "messaging" needs a table [service.messaging]',
      });
    }
    return findings;
  }
  return [...findings, ...messagingContradictions(messaging)];
}

const plainHttp: Finding = {
  path: ['service', 'url'],
  message:
    'service.url is plain http to another machine: who stands between sees the API key, and can offer what was released ' +
    'before; write https://, or set service.insecure = true',
};

function isPlainHttp(url: string): boolean {
  return url.startsWith('http://') && !isLoopback(url);
}

const plainMqtt: Finding = {
  path: ['service', 'messaging', 'url'],
  message:
    'service.messaging.url is plain mqtt to another machine: who stands between sees the API key and the password, and can ' +
    'offer what was released before; write mqtts://, or set service.insecure = true',
};

function isPlainMqtt(url: string): boolean {
  return url.startsWith('mqtt://') && !isLoopback(url);
}

type Messaging = NonNullable<ConfigFile['service']['messaging']>;

const topicKeys = ['activate_topic', 'request_topic', 'reply_topic', 'status_topic', 'wake_topic'] as const;

function messagingContradictions(messaging: Messaging): readonly Finding[] {
  const table = ['service', 'messaging'];
  const findings = tlsContradictions(table, messaging);
  const wrong = (key: keyof Messaging, why: string): void =>
    void findings.push({ path: [...table, key], message: `service.messaging.${key} ${why}` });
  for (const key of topicKeys) {
    if (messaging.topic_id === undefined && messaging[key]?.includes('{topic_id}') === true) {
      wrong(key, 'contains {topic_id}: set service.messaging.topic_id');
    }
  }
  for (const own of ['status_topic', 'wake_topic'] as const) {
    const other = topicKeys.find((key) => key !== own && messaging[key] === messaging[own]);
    if (messaging[own] !== undefined && other !== undefined) wrong(own, `is the same as ${other}`);
  }
  if (new URL(messaging.url).username !== '') wrong('url', 'has a user name: set username and password_file instead');
  if (messaging.password_file !== undefined && messaging.username === undefined) {
    wrong('password_file', 'needs username beside it');
  }
  return findings;
}

interface TlsFiles {
  readonly client_certificate_file?: string | undefined;
  readonly client_key_file?: string | undefined;
}

function tlsContradictions(table: readonly string[], files: TlsFiles): Finding[] {
  const names = ['client_certificate_file', 'client_key_file'] as const;
  const missing = names.find((name) => files[name] === undefined);
  const given = names.find((name) => files[name] !== undefined);
  if (missing === undefined || given === undefined) return [];
  return [{ path: [...table, given], message: `${table.join('.')}.${given} needs ${missing} beside it` }];
}

function defaultTargetContradictions(
  targets: ConfigFile['targets'],
  { default_target: wanted }: ConfigFile['update'],
): readonly Finding[] {
  if (wanted === undefined || Object.hasOwn(targets, wanted)) return [];
  const names = Object.keys(targets).join(', ');
  const known = names === '' ? 'there are no targets' : `there are: ${names}`;
  const message = `update.default_target: there is no [targets.${wanted}] (${known})`;
  return [{ path: ['update', 'default_target'], message }];
}

function targetContradictions(targets: ConfigFile['targets']): readonly Finding[] {
  const pairs = Object.entries(targets).flatMap(([name, target]) =>
    target.kind === 'slots' ? slotContradictions(name, target) : [],
  );
  return [...pairs, ...sharedSlots(targets), ...bootloaderContradictions(targets), ...packageContradictions(targets)];
}

/** Refuses packages beside slots: a package installed into the running slot would be gone with the next image. */
function packageContradictions(targets: ConfigFile['targets']): readonly Finding[] {
  const hasSlots = Object.values(targets).some(({ kind }) => kind === 'slots');
  const owners = new Map<string, string>();
  const findings: Finding[] = [];
  for (const [name, target] of Object.entries(targets)) {
    if (target.kind !== 'package') continue;
    const beside = `targets.${name}: a gateway with slots gets its packages in the images of these`;
    if (hasSlots) findings.push({ path: ['targets', name], message: beside });
    const owner = owners.get(target.package);
    owners.set(target.package, name);
    const twice = `targets.${name}.package is that of targets.${owner}, too`;
    if (owner !== undefined) findings.push({ path: ['targets', name, 'package'], message: twice });
  }
  return findings;
}

/** Refuses two targets with the same device, which would overwrite each other or the running system. */
function sharedSlots(targets: ConfigFile['targets']): readonly Finding[] {
  const owners = new Map<string, string>();
  const findings: Finding[] = [];
  for (const [name, target] of Object.entries(targets)) {
    if (target.kind !== 'slots') continue;
    for (const slot of ['A', 'B'] as const) {
      const device = target.slots[slot];
      const owner = owners.get(device) ?? name;
      owners.set(device, owner);
      if (owner === name) continue;
      const path = ['targets', name, 'slots', slot];
      findings.push({ path, message: `${path.join('.')} is a slot of targets.${owner}, too` });
    }
  }
  return findings;
}

/** Requires that exactly one pair of slots has the bootloader. */
function bootloaderContradictions(targets: ConfigFile['targets']): readonly Finding[] {
  const pairs = Object.entries(targets).flatMap(([name, target]) =>
    target.kind === 'slots' ? [{ name, target }] : [],
  );
  const [booting, ...more] = pairs.filter(({ target }) => target.bootloader !== undefined);
  if (booting === undefined) {
    return pairs.slice(0, 1).map(({ name }) => ({
      path: ['targets', name],
      message: `targets.${name}: a pair of slots needs a bootloader`,
    }));
  }
  return more.map(({ name }) => ({
    path: ['targets', name, 'bootloader'],
    message: `targets.${name}.bootloader: only one pair of slots may have the bootloader, and ${booting.name} has it`,
  }));
}

type SlotsTarget = Extract<ConfigFile['targets'][string], { kind: 'slots' }>;

function slotContradictions(name: string, { slots, bootloader }: SlotsTarget): readonly Finding[] {
  const pairs: { readonly path: readonly string[]; readonly pair: { readonly A: unknown; readonly B: unknown } }[] = [
    { path: ['slots'], pair: slots },
  ];
  if (bootloader?.kind === 'tryboot') pairs.push({ path: ['bootloader', 'partitions'], pair: bootloader.partitions });
  else if (bootloader !== undefined) pairs.push({ path: ['bootloader', 'names'], pair: bootloader.names });
  return pairs
    .filter(({ pair }) => pair.A === pair.B)
    .map(({ path }) => ({
      path: ['targets', name, ...path],
      message: `targets.${name}.${path.join('.')}: A and B are the same`,
    }));
}

/** The time of systemd/thing-agent-trial.timer (30 minutes after boot), minus the time that a start may take. */
const LONGEST_GUARDED_DEADLINE = '25m';

/**
 * Refuses a reported property that members of the group may write: each of them could tell the service how an update
 * ended.
 */
function forgedReports({ report, control }: SoundTables): readonly Finding[] {
  const at = control?.properties.findIndex((id) => id === report?.outcome) ?? -1;
  if (at === -1) return [];
  return [
    {
      path: ['control', 'properties', at],
      message: `control.properties[${at}] is report.outcome, which the agent alone writes`,
    },
  ];
}

function sensorContradictions(
  sensors: ConfigFile['sensors'],
  properties: ConfigFile['properties'],
): readonly Finding[] {
  const findings: Finding[] = [];
  for (const [index, { event, outputs }] of sensors.entries()) {
    const path = ['sensors', index];
    if (event === undefined && outputs.length === 0) {
      findings.push({ path, message: `sensors[${index}]: name an event, or outputs` });
    }
    for (const [number, output] of outputs.entries()) {
      if ((output.event === undefined) !== (output.property === undefined)) continue;
      const where = `sensors[${index}].outputs[${number}]`;
      findings.push({ path: [...path, 'outputs', number], message: `${where}: name an event or a property` });
    }
  }
  for (const [table, all] of [['sensors', sensors] as const, ['properties', properties] as const]) {
    for (const [index, { deadband, deadband_percent: percent }] of all.entries()) {
      if (deadband === undefined || percent === undefined) continue;
      findings.push({
        path: [table, index, 'deadband'],
        message: `${table}[${index}]: deadband and deadband_percent exclude each other`,
      });
    }
  }
  return findings;
}

/** Finds settings that are allowed but weaken a promise, or have no effect. */
export function findWarnings(file: ConfigFile): readonly Finding[] {
  const warnings: Finding[] = [...healthWarnings(file.update), ...scheduleWarnings(file.update)];
  const warn = (path: readonly string[], message: string): void => void warnings.push({ path, message });
  const { service, trust, targets } = file;
  if (trust.allow_unsigned) {
    warn(['trust', 'allow_unsigned'], 'trust.allow_unsigned = true: firmware is installed without a signature');
  } else if (trust.keys.length === 0) {
    warn(['trust'], 'trust.keys is empty and trust.allow_unsigned is false: no firmware will be installed');
  }
  if (isPlainHttp(service.url)) {
    warn(['service', 'url'], 'service.url is plain http: the API key travels unprotected');
  }
  const { messaging } = service;
  if (messaging !== undefined && isPlainMqtt(messaging.url)) {
    const what = messaging.password_file === undefined ? 'the API key travels' : 'the API key and the password travel';
    warn(['service', 'messaging', 'url'], `service.messaging.url is plain mqtt: ${what} unprotected`);
  }
  if (Object.keys(targets).length === 0) warn([], 'there are no [targets]: no firmware will be installed');
  return warnings;
}

function healthWarnings({ health }: ConfigFile['update']): Finding[] {
  if (durationMs(health.deadline) <= durationMs(LONGEST_GUARDED_DEADLINE)) return [];
  const message =
    `update.health.deadline = "${health.deadline}" is longer than ${LONGEST_GUARDED_DEADLINE}: thing-agent-trial.timer ` +
    'ends a trial 30 minutes after boot, so raise its OnBootSec= in a drop-in, too';
  return [{ path: ['update', 'health', 'deadline'], message }];
}

function scheduleWarnings({ schedule }: ConfigFile['update']): Finding[] {
  const why = describeIdleStep(schedule);
  return why === undefined ? [] : [{ path: ['update', 'schedule'], message: `update.schedule: ${why}` }];
}

function isLoopback(url: string): boolean {
  return /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(new URL(url).hostname);
}
