import { mkdir, rm } from 'node:fs/promises';
import { dirname } from 'node:path';

import { examine } from '../config/check/check-config.ts';
import { ConfigError } from '../config/errors.ts';
import { writeToml } from '../config/file/toml.ts';
import { examineConfig, readConfigText } from '../config/read-config.ts';
import { boardProtocols } from '../config/schema/schema.ts';
import {
  keepDraft,
  ownFs,
  readTextFile,
  replaceFileDurably,
  StorageError,
  writeDraft,
} from '../system/files/durable-file.ts';
import { lookAround } from './facts.ts';
import type { GatewayFacts } from './facts.ts';
import { linkHelper } from './helper-link.ts';
import { filesOf, proposeConfig, questionsLeft } from './propose.ts';
import type { Answers, Question, Table } from './propose.ts';

/** Everybody may read the configuration: passwords are in files that it names. */
const MODE = 0o644;

/** The path of the configuration, and that of the file that it replaced, if there was one. */
export interface WrittenConfig {
  readonly path: string;
  readonly before: string | undefined;
  /** How a daemon that runs takes it: by a restart where one process becomes two, or two one. */
  readonly takenBy: 'reload' | 'restart';
}

export interface SetupDeps {
  readonly path: string;
  /** A configuration, or a part of one, whose settings are not asked for. */
  readonly given: Table;
  readonly facts: GatewayFacts;
  /** Throws ConfigError if a configuration file cannot be used on this gateway. */
  readonly check: (path: string) => Promise<unknown>;
  /** Makes the link to two processes, if that is what lacks; returns what takes it away. Default: on this gateway. */
  readonly link?: typeof linkHelper;
}

/** Leads from a gateway without a configuration to one with it. */
export class Setup {
  readonly path: string;
  readonly #deps: SetupDeps;

  constructor(deps: SetupDeps) {
    this.path = deps.path;
    this.#deps = deps;
  }

  questionsLeft(answers: Answers): readonly Question[] {
    return questionsLeft(this.#deps.facts, this.#deps.given, answers);
  }

  /** What is wrong with an answer; undefined: its form is right, and if it is a file, it exists. */
  async complaint({ key, name }: Question, answers: Answers): Promise<string | undefined> {
    const { problems } = examineConfig(this.path, writeToml(this.#proposal(answers)));
    const formal = problems.map(({ message }) => message).find((message) => /^[:[ ]/.test(withoutKey(message, key)));
    if (formal !== undefined) return formal;
    const answer = answers[name] ?? '';
    if (name === 'device-type' && /\s/.test(answer)) return `${key}: ${JSON.stringify(answer)} has a blank in it`;
    for (const { file, need } of filesOf(name, answer)) {
      const why = await examine({ path: [key], file, need });
      if (why !== undefined) return `${key}: ${file} ${why}`;
    }
    return undefined;
  }

  text(answers: Answers): string {
    const { serialPorts } = this.#deps.facts;
    return [HEADER, writeToml(this.#proposal(answers)).trimEnd(), '', ...serialPorts.map(boardExample)].join('\n');
  }

  /**
   * Writes the configuration if it can be used here. Throws ConfigError or StorageError, and has then changed nothing.
   */
  async write(text: string): Promise<WrittenConfig> {
    const { path, check, link = linkHelper } = this.#deps;
    await makeFolderOf(path);
    const draft = await writeDraft(path, text, ownFs, MODE);
    const helper = helperOf(path, text);
    let unlink: (() => Promise<void>) | undefined;
    try {
      unlink = helper === undefined ? undefined : await link(helper);
      await check(draft);
      const before = await this.#keepBefore();
      await keepDraft(draft, path);
      const helperBefore = before === undefined ? undefined : helperOf(path, before.text);
      return { path, before: before?.path, takenBy: helper === helperBefore ? 'reload' : 'restart' };
    } catch (error) {
      await rm(draft, { force: true });
      await unlink?.();
      throw error instanceof ConfigError ? this.#withoutDraft(error) : error;
    }
  }

  /** The error without line numbers, which were those of the removed draft. */
  #withoutDraft({ problems }: ConfigError): ConfigError {
    const told = problems.map(({ message }) => ({ line: undefined, message }));
    return new ConfigError('config-invalid', this.path, told, 'nothing was written; answer again: agent setup');
  }

  async #keepBefore(): Promise<{ readonly path: string; readonly text: string } | undefined> {
    const { path } = this.#deps;
    const text = await readTextFile(path);
    if (text === undefined) return undefined;
    const before = `${path}.before`;
    await replaceFileDurably(before, text);
    return { path: before, text };
  }

  #proposal(answers: Answers): Table {
    return proposeConfig(this.#deps.facts, this.#deps.given, answers);
  }
}

/** `from` is a file with a part of a configuration. Throws ConfigError. */
export async function beginSetup(
  { path, check }: Pick<SetupDeps, 'path' | 'check'>,
  from: string | undefined,
  signal: AbortSignal,
): Promise<Setup> {
  const given = from === undefined ? {} : examineConfig(from, await readConfigText(from)).input;
  return new Setup({ path, check, given, facts: await lookAround(signal) });
}

async function makeFolderOf(path: string): Promise<void> {
  try {
    await mkdir(dirname(path), { recursive: true });
  } catch (error) {
    throw new StorageError('write', path, error);
  }
}

function helperOf(path: string, text: string): string | undefined {
  return examineConfig(path, text).file?.system.helper;
}

const HEADER = `# Made by agent setup. All settings: agent config schema; after a change: agent config check
`;

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
