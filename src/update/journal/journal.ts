import { join } from 'node:path';

import { AgentError } from '../../system/errors.ts';
import {
  NoFileError,
  nodeFs,
  readDurableTextFile,
  readTextFile,
  replaceFileDurably,
  replaceFileOrForeign,
  StorageError,
  isDamagedCopy,
  writeDraft,
  replaceForeignFile,
} from '../../system/files/durable-file.ts';
import type { DurableFs } from '../../system/files/durable-file.ts';
import type { Log } from '../../system/log/log.ts';
import { addFloorsCopy, FloorsCopy } from './floors-copy.ts';
import { readState } from './read-state.ts';
import { advance } from './reducer.ts';
import type { StateAfter } from './reducer.ts';
import type { EventOf, EventType, UpdateState } from './state.ts';
import { initialState } from './state.ts';

/** Invariant 4: the durable record of where the running update stands. */
export interface Journal {
  readonly state: UpdateState;
  /**
   * The reason why the state of updates is unknown. Undefined if the journal was read, or an event was appended since.
   */
  readonly missing: AgentError | undefined;
  /** The error when the journal was last read, probed or written, if any. */
  readonly trouble: AgentError | undefined;
  /** Reads the journal again if it could not be read. */
  refresh(): Promise<void>;
  /** Throws if an event, or `roomBytes` more, could not be made durable. Costs less than an event; changes nothing. */
  probe(roomBytes?: number): Promise<void>;
  /** Invariant 4: returns when the event is durable; only then does the state change. */
  append<T extends EventType>(event: EventOf<T>): Promise<StateAfter<T>>;
}

const FILE_NAME = 'journal.json';
const lostState: UpdateState = { ...initialState, phase: { kind: 'lost' } };

/** The environment of the journal. */
export interface JournalPlace {
  /** Throws if the directory cannot have a journal. Default: every directory can. */
  readonly admit?: () => Promise<void>;
  /** Called when the lowest permitted release was lost. */
  readonly onFloorsLost?: () => Promise<void>;
}

interface FileJournalDeps extends Required<JournalPlace> {
  readonly fs: DurableFs;
  readonly log: Log;
}

/** Keeps the journal in one small file of the state directory. Each event replaces the file as a whole. */
export class FileJournal implements Journal {
  readonly #path: string;
  readonly #deps: FileJournalDeps;
  readonly #floors: FloorsCopy;
  #state: UpdateState = lostState;
  #missing: AgentError | undefined;
  #isUnreadable = false;
  #trouble: AgentError | undefined;
  #last: Promise<unknown> = Promise.resolve();

  private constructor(directory: string, deps: FileJournalDeps) {
    this.#path = join(directory, FILE_NAME);
    this.#deps = deps;
    this.#floors = new FloorsCopy(directory, deps.fs, deps.log);
  }

  /**
   * Opens the journal. An unreadable one is copied, and read part by part (read-state.ts). It stays in place until an
   * event is appended, since a missing journal would mean an idle state. If it cannot be read at all, the agent
   * installs nothing; something other than a file is set aside by the first write.
   */
  static async open(
    directory: string,
    log: Log,
    fs: DurableFs = nodeFs,
    { admit = async () => {}, onFloorsLost = async () => {} }: JournalPlace = {},
  ): Promise<FileJournal> {
    const journal = new FileJournal(directory, { fs, log, admit, onFloorsLost });
    await journal.#load();
    return journal;
  }

  async #load(): Promise<void> {
    let text: string | undefined;
    try {
      text = await readDurableTextFile(this.#path, this.#deps.fs);
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
      this.#isUnreadable = true;
      this.#missing = error instanceof NoFileError ? obstacle(this.#path, error) : error;
      this.#trouble = error instanceof NoFileError ? undefined : error;
      return;
    }
    this.#isUnreadable = false;
    this.#trouble = undefined;
    const { state, damage } = await readFound(text, this.#path, this.#deps.fs);
    const isMissing = text === undefined && state.phase.kind === 'idle';
    this.#missing = isMissing ? new StorageError('read', this.#path, 'there is none') : undefined;
    this.#state = await this.#floors.addTo(state);
    if (this.#floors.wasDamaged && (text === undefined || damage.length > 0)) await this.#deps.onFloorsLost();
    if (text === undefined || damage.length === 0) return;
    const why = damage.join('; ');
    const sizeBytes = Buffer.byteLength(text);
    const message =
      'the journal is damaged, or written by a newer agent: its readable parts are used, and a copy is saved';
    this.#deps.log.error({ path: this.#path, sizeBytes, why, copy: `${this.#path}.damaged` }, message);
    await backUpDamaged(this.#path, text, this.#deps.log, this.#deps.fs);
  }

  get missing(): AgentError | undefined {
    return this.#missing;
  }

  get trouble(): AgentError | undefined {
    return this.#trouble;
  }

  async refresh(): Promise<void> {
    if (!this.#isUnreadable) return;
    const log = (error: unknown): void => {
      if (!(error instanceof AgentError)) throw error;
      this.#deps.log.debug({ code: error.code }, error.message);
    };
    await this.#deps.admit().catch(log);
    await this.#load();
    await this.#inTurn(async () => {}).catch(log);
  }

  /** Does everything of a write except the rename. */
  async probe(roomBytes = 0): Promise<void> {
    await this.refresh();
    return this.#inTurn(async () => {
      await this.#deps.admit();
      await writeDraft(this.#path, JSON.stringify(this.#state).padEnd(roomBytes), this.#deps.fs);
    });
  }

  get state(): UpdateState {
    return this.#state;
  }

  /** Appends one event at a time, in the order of the calls, since boards are flashed in parallel. */
  async append<T extends EventType>(event: EventOf<T>): Promise<StateAfter<T>> {
    return this.#inTurn(async () => this.#append(event));
  }

  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(async () => this.#noteTrouble(work));
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  async #noteTrouble<T>(work: () => Promise<T>): Promise<T> {
    try {
      await this.#beginAnew();
      if (this.#isUnreadable && this.#missing !== undefined) throw this.#missing;
      const result = await work();
      this.#trouble = undefined;
      return result;
    } catch (error) {
      if (error instanceof AgentError) this.#trouble = error;
      throw error;
    }
  }

  async #append<T extends EventType>(event: EventOf<T>): Promise<StateAfter<T>> {
    const next = advance(this.#state, event);
    await this.#floors.keep(next);
    try {
      await this.#write(next);
    } catch (error) {
      await this.#takeBack();
      throw error;
    }
    this.#state = next;
    this.#missing = undefined;
    return next;
  }

  async #write(state: UpdateState): Promise<void> {
    this.#logSetAside(await replaceFileOrForeign(this.#path, JSON.stringify(state), this.#deps.fs));
  }

  /** Replaces something other than a file by a new journal. The update in progress is lost. */
  async #beginAnew(): Promise<void> {
    if (!(this.#missing instanceof NoFileError)) return;
    await this.#deps.admit();
    await this.#load(); // it may have been removed
    const { missing } = this;
    if (!(missing instanceof NoFileError)) return;
    this.#logSetAside(await replaceForeignFile(this.#path, JSON.stringify(lostState), this.#deps.fs));
    await this.#load();
    if (this.#floors.wasDamaged) await this.#deps.onFloorsLost();
  }

  #logSetAside(aside: string | undefined): void {
    if (aside !== undefined) this.#deps.log.error({ path: this.#path, aside }, 'not a journal: set aside');
  }

  /** Writes the former state again: a write that failed in its last step might be there after a restart. */
  async #takeBack(): Promise<void> {
    await orWarning(this.#write(this.#state), this.#deps.log);
  }
}

/** Returns the journal for reading: nothing is set aside, and appended events are not kept. */
export async function readJournal(directory: string, fs: DurableFs = nodeFs): Promise<Journal> {
  try {
    const path = join(directory, FILE_NAME);
    const { state } = await readFound(await readTextFile(path, fs), path, fs);
    return new MemoryJournal(await addFloorsCopy(state, directory, fs));
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    return new MemoryJournal(lostState);
  }
}

/** Returns the state in a text. Without a file it is idle, unless something was set aside at its path. */
async function readFound(text: string | undefined, path: string, fs: DurableFs): Promise<ReturnType<typeof readState>> {
  if (text !== undefined) return readState(text);
  return { state: (await isDamagedCopy(path, fs)) ? lostState : initialState, damage: [] };
}

function obstacle(path: string, { cause }: NoFileError): NoFileError {
  return new NoFileError(
    'read',
    path,
    cause,
    'agent --update-now, or the daemon, sets it aside, and begins a new record',
  );
}

/** A journal in memory, for tests and for commands that must not write to the disk. */
export class MemoryJournal implements Journal {
  missing: AgentError | undefined;
  readonly trouble: AgentError | undefined;
  state: UpdateState;

  constructor(state: UpdateState = initialState) {
    this.state = state;
  }

  async refresh(): Promise<void> {}

  async probe(): Promise<void> {}

  async append<T extends EventType>(event: EventOf<T>): Promise<StateAfter<T>> {
    const next = advance(this.state, event);
    this.state = next;
    return next;
  }
}

/** Copies a damaged file for the operator's analysis. The agent continues without it. */
async function backUpDamaged(path: string, text: string, log: Log, fs: DurableFs): Promise<void> {
  await orWarning(replaceFileDurably(`${path}.damaged`, text, fs), log);
}

async function orWarning(write: Promise<void>, log: Log): Promise<void> {
  try {
    await write;
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    log.warn({ code: error.code }, error.message);
  }
}
