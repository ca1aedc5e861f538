import type { RequiredFileKind } from '../system/settings/values.ts';
import type { DetectedGateway } from './detect-gateway.ts';
import { findSlotPairs, hasSlotName } from './slot-pairs.ts';

/** A table of a configuration, with the keys of the file. */
export type Table = Readonly<Record<string, unknown>>;

export type QuestionName =
  | 'url'
  | 'device-type'
  | 'serial-number'
  | 'keys'
  | 'slot-a'
  | 'slot-b'
  | 'bootloader'
  | 'handler'
  | 'packages'
  | 'version';

export interface Question {
  readonly name: QuestionName;
  /** The key of the configuration that the answer sets; complaints about the answer begin with it. */
  readonly key: string;
  readonly text: string;
  /** The default answer. If omitted, the question must be answered. */
  readonly found: string | undefined;
  /** The answer in non-interactive mode to a question that has no default, or undefined. */
  readonly nonInteractive?: NonInteractiveDefault | undefined;
  /** Another valid answer with its condition, or undefined. */
  readonly alternative?: string;
}

export interface NonInteractiveDefault {
  readonly answer: string;
  /** A note about the answer: "no slots were found". */
  readonly note: string;
}

export type Answers = Readonly<Partial<Record<QuestionName, string>>>;

const TARGET = 'gateway';
const AGENT = 'thing-agent';
const NONE = 'none';
const NO_SLOTS = `no slots found; updates replace the package ${AGENT}`;

/**
 * The questions that are still open, in their order: those that neither the given part of a configuration nor an answer
 * settles.
 */
export function remainingQuestions(facts: DetectedGateway, given: Table, answers: Answers): readonly Question[] {
  const places = hasSlots(given) ? [] : [...aboutSlots(facts, given, answers), ...aboutPackages(facts, given, answers)];
  const asked = [...aboutDevice(facts, given), ...places, ...aboutVersion(facts, given, answers)];
  return asked.filter(({ name }) => answers[name] === undefined);
}

/** Returns the files that an answer names, with their requirements. */
export function filesOf(
  name: QuestionName,
  answer: string,
): readonly { readonly file: string; readonly need: RequiredFileKind }[] {
  const need = needs[name];
  if (need === undefined || answer === NONE) return [];
  return (name === 'keys' ? listOf(answer) : [answer]).map((file) => ({ file, need }));
}

const needs: Readonly<Partial<Record<QuestionName, RequiredFileKind>>> = {
  keys: 'release key',
  'slot-a': 'slot',
  'slot-b': 'slot',
  handler: 'handler',
};

function listOf(answer: string): readonly string[] {
  return answer.split(',').map((file) => file.trim());
}

function aboutDevice(facts: DetectedGateway, given: Table): readonly Question[] {
  const questions: Question[] = [
    { name: 'url', key: 'service.url', text: 'URL of the provisioning service', found: undefined },
    {
      name: 'device-type',
      key: 'device.device_type',
      text: 'Device type (as in your releases)',
      found: facts.deviceType,
    },
    {
      name: 'keys',
      key: 'trust.keys',
      text: 'Public key files of your releases, separated by commas',
      found: facts.releaseKeys.length > 0 ? facts.releaseKeys.join(',') : undefined,
    },
  ];
  const isNamed = facts.serialNumber !== undefined || isSet(given, 'device.serial_number_file');
  if (!isNamed) {
    const text = 'Serial number (not found in the hardware)';
    questions.push({ name: 'serial-number', key: 'device.serial_number', text, found: undefined });
  }
  const mayBeUnsigned = asTable(given['trust'])['allow_unsigned'] === true;
  return questions.filter(({ name, key }) => !isSet(given, key) && !(name === 'keys' && mayBeUnsigned));
}

function aboutSlots(facts: DetectedGateway, given: Table, answers: Answers): readonly Question[] {
  const { partitions, bootloaders } = facts;
  if (isWithoutSlots(answers)) return [];
  const [pair] = findSlotPairs(partitions);
  const hasBoardsAlone = pair === undefined && targetsOf(given).length > 0;
  const [bootloader, ...others] = bootloaders;
  const whereNone = hasBoardsAlone ? NONE : undefined;
  const slot = (name: 'A' | 'B'): Question => ({
    name: name === 'A' ? 'slot-a' : 'slot-b',
    key: `targets.${TARGET}.slots.${name}`,
    text: `Partition of slot ${name}`,
    found: pair === undefined ? whereNone : pair[name],
    nonInteractive: name === 'A' && isPackagedAlone(facts) ? { answer: NONE, note: NO_SLOTS } : undefined,
    alternative: `"${NONE}" if this gateway has no slots`,
  });
  const chosen: Question = {
    name: 'bootloader',
    key: `targets.${TARGET}.bootloader.kind`,
    text: 'Bootloader (uboot, grub, tryboot or custom)',
    found: others.length === 0 ? bootloader?.kind : undefined,
  };
  const handler: Question = {
    name: 'handler',
    key: `targets.${TARGET}.bootloader.handler`,
    text: 'Program that controls the bootloader',
    found: undefined,
  };
  if (hasBoardsAlone && answers['slot-a'] === undefined) return [slot('A')];
  return [slot('A'), slot('B'), chosen, ...(answers.bootloader === 'custom' ? [handler] : [])];
}

/**
 * True if the agent was installed as a package, and nothing here was made for slots. Any Debian has the environment of GRUB; the
 * files of the others are placed for slots.
 */
function isPackagedAlone({ packages, partitions, bootloaders }: DetectedGateway): boolean {
  const isForSlots = hasSlotName(partitions) || bootloaders.some(({ kind }) => kind !== 'grub');
  return packages?.has(AGENT) === true && !isForSlots;
}

/** Without a second slot. */
function aboutPackages({ packages }: DetectedGateway, given: Table, answers: Answers): readonly Question[] {
  const hasTargets = targetsOf(given).length > 0;
  if (packages === undefined || !isWithoutSlots(answers) || kindsOf(given).includes('package')) return [];
  const text = 'Debian packages to update, separated by commas';
  const found = packages.has(AGENT) && !hasTargets ? AGENT : NONE;
  return [{ name: 'packages', key: 'targets', text, found, alternative: `"${NONE}"` }];
}

/** An image that names itself needs no setting, which would be wrong after the first update. */
function aboutVersion({ imageVersion }: DetectedGateway, given: Table, answers: Answers): readonly Question[] {
  const isVersionSet = ['device.factory_version', 'device.factory_version_file'].some((key) => isSet(given, key));
  if (isVersionSet || imageVersion !== undefined || isWithoutTargets(given, answers)) return [];
  const text = 'Installed version, as the service names it';
  return [{ name: 'version', key: 'device.factory_version', text, found: NONE, alternative: `"${NONE}" if unknown` }];
}

/** True if the first check downloads the running release, since its version is unknown. */
export function isVersionUnknown(facts: DetectedGateway, given: Table, answers: Answers): boolean {
  return (answers.version ?? NONE) === NONE && aboutVersion(facts, given, answers).length > 0;
}

/** Which packages an answer names, by the names of their targets. */
export function packagesIn(answers: Answers): ReadonlyMap<string, string> {
  const { packages = NONE } = answers;
  return new Map(packages === NONE ? [] : listOf(packages).map((name) => [targetNameOf(name), name]));
}

function targetNameOf(name: string): string {
  return name === AGENT ? 'agent' : name.replace(/^[^A-Za-z]/, 'package-$&').replaceAll(/[^A-Za-z0-9_-]/g, '-');
}

/** Returns the configuration that follows from detected values, answers and the given file, which has priority. */
export function proposeConfig(facts: DetectedGateway, given: Table, answers: Answers): Table {
  const found: Table = {
    service: present({ url: answers.url }),
    device: present({
      device_type: answers['device-type'],
      serial_number: answers['serial-number'],
      factory_version: answers.version === NONE ? undefined : answers.version,
    }),
    trust: present({ keys: answers.keys === undefined ? undefined : listOf(answers.keys) }),
    targets: hasSlots(given) ? {} : proposeTargets(facts, answers),
  };
  const filled = Object.entries(found).filter(([, table]) => Object.keys(asTable(table)).length > 0);
  return merge(Object.fromEntries(filled), given);
}

function isWithoutTargets(given: Table, answers: Answers): boolean {
  return targetsOf(given).length === 0 && isWithoutSlots(answers) && packagesIn(answers).size === 0;
}

function isWithoutSlots(answers: Answers): boolean {
  return answers['slot-a'] === NONE || answers['slot-b'] === NONE;
}

function proposeTargets(facts: DetectedGateway, answers: Answers): Table {
  const { 'slot-a': A, 'slot-b': B } = answers;
  if (A === undefined || isWithoutSlots(answers)) {
    return Object.fromEntries(
      [...packagesIn(answers)].map(([target, name]) => [target, { kind: 'package', package: name }]),
    );
  }
  const targets: Record<string, unknown> = {
    [TARGET]: present({ kind: 'slots', slots: present({ A, B }), bootloader: proposeBootloader(facts, answers) }),
  };
  for (const { name, ...slots } of furtherPairs(facts, answers)) targets[name] = { kind: 'slots', slots };
  return targets;
}

/** Further pairs of partitions that belong to the same slots. None, unless the first pair was chosen for the slots. */
function furtherPairs({ partitions }: DetectedGateway, answers: Answers): ReturnType<typeof findSlotPairs> {
  const [pair, ...further] = findSlotPairs(partitions);
  return pair !== undefined && answers['slot-a'] === pair.A ? further : [];
}

function proposeBootloader(
  { bootloaders }: DetectedGateway,
  { bootloader: kind, handler }: Answers,
): Table | undefined {
  if (kind === undefined) return undefined;
  const found = bootloaders.find((one) => one.kind === kind);
  return found ?? present({ kind, handler });
}

/** The state directory that a part of a configuration names. */
export function stateIn(given: Table): string | undefined {
  const { state } = asTable(given['paths']);
  return typeof state === 'string' ? state : undefined;
}

/**
 * Returns the serial number without a question: as given, else the hardware's. Returns undefined if setup must ask for
 * it, or it is in a file.
 */
export function serialNumberIn(facts: DetectedGateway, given: Table): string | undefined {
  const { serial_number: number, serial_number_file: file } = asTable(given['device']);
  if (typeof number === 'string') return number.trim();
  return file === undefined ? facts.serialNumber : undefined;
}

function hasSlots(given: Table): boolean {
  return kindsOf(given).includes('slots');
}

function kindsOf(given: Table): readonly unknown[] {
  return targetsOf(given).map((target) => asTable(target)['kind']);
}

function targetsOf(given: Table): readonly unknown[] {
  return Object.values(asTable(given['targets']));
}

function isSet(given: Table, key: string): boolean {
  const [table = '', name = ''] = key.split('.');
  return asTable(given[table])[name] !== undefined;
}

function merge(under: Table, over: Table): Table {
  const merged: Record<string, unknown> = { ...under };
  for (const [key, value] of Object.entries(over)) {
    const below = merged[key];
    merged[key] = isTable(below) && isTable(value) ? merge(below, value) : value;
  }
  return merged;
}

function present(table: Table): Table {
  return Object.fromEntries(Object.entries(table).filter(([, value]) => value !== undefined));
}

function asTable(value: unknown): Table {
  return isTable(value) ? value : {};
}

function isTable(value: unknown): value is Table {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date);
}
