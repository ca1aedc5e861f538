import { access, constants, rm } from 'node:fs/promises';
import { dirname, normalize } from 'node:path';

import { examine, hiddenReason } from '../config/check/check-config.ts';
import { validSubset } from '../config/check/valid-subset.ts';
import { ConfigError } from '../config/errors.ts';
import type { ConfigProblem } from '../config/errors.ts';
import { writeToml } from '../config/file/toml.ts';
import { DEFAULT_CONFIG_PATH, examineConfig, readConfigText } from '../config/read-config.ts';
import { boardProtocols } from '../config/schema/schema.ts';
import { serialNumberDoubt } from '../system/device/serial-number.ts';
import { mapError, systemErrorCode } from '../system/errors.ts';
import { commitTempFile, nodeFs, readTextFile, StorageError, writeDraft } from '../system/files/durable-file.ts';
import { makeFolder } from '../system/files/make-folder.ts';
import { backUpConfig } from './config-backups.ts';
import { detectGateway } from './detect-gateway.ts';
import type { DetectedGateway } from './detect-gateway.ts';
import {
  filesOf,
  isVersionUnknown,
  packagesIn,
  proposeConfig,
  remainingQuestions,
  serialNumberIn,
  stateIn,
} from './propose.ts';
import type { Answers, Question, Table } from './propose.ts';
import { findSlotPairs } from './slot-pairs.ts';

/** Everybody may read the configuration: passwords are in files that it names. */
const MODE = 0o644;

/** The path of the configuration, and of the file that it replaced, if there was one. */
export interface WrittenConfig {
  readonly path: string;
  readonly before: string | undefined;
  /** True if the unit reads it, unless a drop-in names another file. */
  readonly isOfUnit: boolean;
}

export interface SetupDeps {
  readonly path: string;
  /** A configuration, or a part of one, whose settings are not asked for. */
  readonly given: Table;
  readonly facts: DetectedGateway;
  /** Notes to show before the first question. */
  readonly notes?: readonly string[];
  /** Throws ConfigError if a configuration file cannot be used on this gateway. */
  readonly check: (path: string) => Promise<unknown>;
}

/** Leads from a gateway without a configuration to one with it. */
export class Setup {
  readonly path: string;
  readonly notes: readonly string[];
  readonly #deps: SetupDeps;

  constructor(deps: SetupDeps) {
    this.path = deps.path;
    this.notes = deps.notes ?? [];
    this.#deps = deps;
  }

  questionsLeft(answers: Answers): readonly Question[] {
    return remainingQuestions(this.#deps.facts, this.#deps.given, answers);
  }

  /** Returns the problem of an answer, or undefined if its form is valid and a file exists. */
  async complaint({ key, name }: Question, answers: Answers): Promise<string | undefined> {
    const { problems } = examineConfig(this.path, writeToml(this.#proposal(answers)));
    const formal = problems.map(({ message }) => message).find((message) => /^[:[ ]/.test(withoutKey(message, key)));
    if (formal !== undefined) return formal;
    const answer = answers[name] ?? '';
    if (name === 'device-type' && /\s/.test(answer)) return `${key}: ${JSON.stringify(answer)} contains a space`;
    if (name === 'slot-b' && answer === answers['slot-a']) return `${key}: slots A and B are the same partition`;
    for (const { file, need } of filesOf(name, answer)) {
      const why = await examine(file, need);
      const reason = why === undefined ? hiddenReason(file) : `${file} ${why}`;
      if (reason !== undefined) return `${key}: ${reason}`;
    }
    return name === 'packages' ? this.#packageComplaint(answers, problems) : undefined;
  }

  #packageComplaint(answers: Answers, problems: readonly ConfigProblem[]): string | undefined {
    for (const [target, name] of packagesIn(answers)) {
      const formal = problems.find(({ message }) => message.startsWith(`targets.${target}`));
      if (formal !== undefined) return formal.message;
      if (this.#deps.facts.packages?.has(name) !== true)
        return `targets.${target}: the package ${name} is not installed`;
    }
    return undefined;
  }

  /** Returns a warning about a valid answer, or undefined. */
  doubt({ name, key }: Question, answer: string): string | undefined {
    const doubt = name === 'serial-number' ? serialNumberDoubt(answer.trim()) : undefined;
    return doubt && `${key}: ${doubt}`;
  }

  text(answers: Answers): string {
    const { facts, given } = this.#deps;
    const version = isVersionUnknown(facts, given, answers) ? VERSION_UNKNOWN : imageVersionNote(facts);
    const settings = writeToml(this.#proposal(answers)).trimEnd();
    return [HEADER + version, settings, '', ...facts.serialPorts.map(boardExample)].join('\n');
  }

  /**
   * Writes the configuration if it can be used here. Throws ConfigError or StorageError, and has then changed nothing.
   */
  async write(text: string): Promise<WrittenConfig> {
    const { path, check } = this.#deps;
    await makeFolderOf(path);
    const draft = await writeDraft(path, text, nodeFs, MODE);
    try {
      await check(draft);
      const before = await readTextFile(path);
      const kept = before === undefined || before === text ? undefined : await backUpConfig(path, before);
      await commitTempFile(draft, path);
      return { path, before: kept, isOfUnit: normalize(path) === DEFAULT_CONFIG_PATH };
    } catch (error) {
      await rm(draft, { force: true });
      throw error instanceof ConfigError ? this.#withoutDraft(error) : error;
    }
  }

  /** Returns the error without line numbers, which refer to the removed draft. */
  #withoutDraft({ problems }: ConfigError): ConfigError {
    const told = problems.map(({ message }) => ({ line: undefined, message }));
    return new ConfigError('config-invalid', this.path, told, 'nothing was written; answer again: agent setup');
  }

  #proposal(answers: Answers): Table {
    return proposeConfig(this.#deps.facts, this.#deps.given, answers);
  }
}

/** The two places of a target of kind slots. */
export type SlotPlaces = Readonly<Record<'A' | 'B', string>>;

export interface BeginDeps extends Pick<SetupDeps, 'path' | 'check'> {
  /** Throws an AgentError if the state directory cannot be used with these slots. Returns notes about it. */
  readonly checkState: (state: string | undefined, slots: readonly SlotPlaces[]) => Promise<readonly string[]>;
}

/**
 * `from` is a file with a part of a configuration. Throws ConfigError, and the errors of `checkState`: no answer can fix
 * a state directory.
 */
export async function beginSetup(
  { path, check, checkState }: BeginDeps,
  from: string | undefined,
  signal: AbortSignal,
): Promise<Setup> {
  await refuseReadOnly(path, dirname(path));
  const given = from === undefined ? {} : examineConfig(from, await readPart(from)).input;
  const facts = await detectGateway(signal);
  const { tables } = validSubset(given);
  const named = Object.values(tables.targets ?? {}).flatMap((target) =>
    target.kind === 'slots' ? [target.slots] : [],
  );
  const notes = await checkState(stateIn(given), named.length > 0 ? named : findSlotPairs(facts.partitions));
  return new Setup({ path, check, given, facts, notes: [...notes, ...serialNotes(facts, given)] });
}

/** Throws `config-unwritable` before any question if the file system of the configuration is read-only, as in an image. */
async function refuseReadOnly(path: string, folder: string): Promise<void> {
  try {
    await access(folder, constants.W_OK);
  } catch (error) {
    const code = systemErrorCode(error);
    if (code === 'ENOENT' && folder !== dirname(folder)) return refuseReadOnly(path, dirname(folder));
    if (code !== 'EROFS') return;
    throw new ConfigError('config-unwritable', path, [{ line: undefined, message: 'its file system is read-only' }]);
  }
}

/** Returns notes about a serial number without a question. */
function serialNotes(facts: DetectedGateway, given: Table): readonly string[] {
  const serialNumber = serialNumberIn(facts, given);
  const doubt = serialNumber === undefined ? undefined : serialNumberDoubt(serialNumber);
  return doubt === undefined ? [] : [`the serial number ${doubt}`];
}

/** Omits the advice to run `agent setup`, which is already running. */
async function readPart(from: string): Promise<string> {
  try {
    return await readConfigText(from);
  } catch (error) {
    if (!(error instanceof ConfigError) || error.code !== 'config-missing') throw error;
    throw new ConfigError('config-unreadable', from, [{ line: undefined, message: 'no such file for --from' }]);
  }
}

async function makeFolderOf(path: string): Promise<void> {
  await mapError(makeFolder(dirname(path), 0o755), (error) => new StorageError('write', path, error));
}

const HEADER = `# Made by agent setup. All settings: agent config schema; after a change: agent config check
`;

const VERSION_UNKNOWN = `# The running release is unknown ([device] factory_version, or better IMAGE_VERSION of /etc/os-release): the
# first check downloads the assigned one, even if it is the same.
`;

function imageVersionNote({ imageVersion }: DetectedGateway): string {
  return imageVersion === undefined ? '' : `# /etc/os-release calls this image ${JSON.stringify(imageVersion)}.\n`;
}

function withoutKey(message: string, key: string): string {
  return message.startsWith(key) ? message.slice(key.length) : '';
}

function boardExample(port: string): string {
  const [protocol, ...others] = boardProtocols;
  return `# A serial port that was found. For a board (a microcontroller) on it:
# [targets.NAME]
# kind = "mcu"
# port = ${JSON.stringify(port)}
# protocol = ${JSON.stringify(protocol)}    # ${others.join(', ')}
`;
}
