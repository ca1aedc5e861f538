import { join } from 'node:path';

import { AgentError } from '../../system/errors.ts';
import {
  ownFs,
  readDurableTextFile,
  readTextFile,
  replaceFileDurably,
  StorageError,
  writeDraft,
} from '../../system/files/durable-file.ts';
import type { DurableFs } from '../../system/files/durable-file.ts';
import type { Log } from '../../system/log/log.ts';
import type { EventOf, EventType, StateAfter } from './events.ts';
import { addFloorsCopy, FloorsCopy } from './floors-copy.ts';
import { readState } from './read-state.ts';
import { initialState } from './state.ts';
import type { UpdateState } from './state.ts';
import { advance } from './transitions.ts';

/** The durable record of where the running update stands. */
export interface Journal {
  readonly state: UpdateState;
  /**
   * Why nothing is known of an update: there is no journal, or it cannot be read. Undefined: there is one, or there is one
   * since something was appended.
   */
  readonly missing: AgentError | undefined;
  /** What was wrong when it was last read, probed or written; undefined: nothing. */
  readonly trouble: AgentError | undefined;
  /** Tries again to read what could not be read. */
  refresh(): Promise<void>;
  /** Throws where an event could not be made durable, or not for long. Costs less than an event, and changes nothing. */
  probe(): Promise<void>;
  /** Returns when the event is durable; the state changes only then. */
  append<T extends EventType>(event: EventOf<T>): Promise<StateAfter<T>>;
}

const FILE_NAME = 'journal.json';

interface FileJournalParts {
  readonly fs: DurableFs;
  readonly log: Log;
  readonly admit: () => Promise<void>;
}

/** Keeps the journal in one small file of the state directory, replaced as a whole by each event. */
export class FileJournal implements Journal {
  readonly #path: string;
  readonly #fs: DurableFs;
  readonly #log: Log;
  readonly #admit: () => Promise<void>;
  readonly #floors: FloorsCopy;
  #state: UpdateState = { ...initialState, phase: { kind: 'lost' } };
  #missing: AgentError | undefined;
  #isUnreadable = false;
  #trouble: AgentError | undefined;
  #floorsLost = false;
  #last: Promise<unknown> = Promise.resolve();

  private constructor(directory: string, { log, fs, admit }: FileJournalParts) {
    this.#path = join(directory, FILE_NAME);
    this.#log = log;
    this.#fs = fs;
    this.#admit = admit;
    this.#floors = new FloorsCopy(directory, fs, log);
  }

  /**
   * Of a journal that cannot be understood a copy is set aside, and it is read part by part (read-state.ts). It stays in
   * its place until something is appended: a journal that is missing would mean that nothing is under way. One that cannot
   * be read at all leaves an agent that installs nothing. `admit` throws where the directory is no place for it.
   */
  static async open(
    directory: string,
    log: Log,
    fs: DurableFs = ownFs,
    admit = async (): Promise<void> => {},
  ): Promise<FileJournal> {
    const journal = new FileJournal(directory, { fs, log, admit });
    await journal.#load();
    return journal;
  }

  async #load(): Promise<void> {
    let text: string | undefined;
    try {
      text = await readDurableTextFile(this.#path, this.#fs);
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
      this.#isUnreadable = true;
      this.#missing = error;
      this.#trouble = error;
      return;
    }
    this.#isUnreadable = false;
    this.#trouble = undefined;
    this.#missing = text === undefined ? new StorageError('read', this.#path, 'there is none') : undefined;
    const { state, damage } = text === undefined ? { state: initialState, damage: [] } : readState(text);
    this.#state = await this.#floors.addTo(state);
    this.#floorsLost = this.#floors.wasDamaged && (text === undefined || damage.length > 0);
    if (text === undefined || damage.length === 0) return;
    const why = damage.join('; ');
    const sizeBytes = Buffer.byteLength(text);
    const message =
      'the journal is damaged, or of a newer agent: what of it can be read is used, and a copy is set aside';
    this.#log.error({ path: this.#path, sizeBytes, why, copy: `${this.#path}.damaged` }, message);
    await setAside(this.#path, text, this.#log, this.#fs);
  }

  /** Nobody knows any more what the lowest release is that may be installed. */
  get floorsLost(): boolean {
    return this.#floorsLost;
  }

  get missing(): AgentError | undefined {
    return this.#missing;
  }

  get trouble(): AgentError | undefined {
    return this.#trouble;
  }

  async refresh(): Promise<void> {
    if (!this.#isUnreadable) return;
    try {
      await this.#admit();
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
      this.#log.debug({ code: error.code }, error.message);
    }
    await this.#load();
  }

  /** Everything of a write but the rename. */
  async probe(): Promise<void> {
    await this.refresh();
    return this.#inTurn(async () => {
      await this.#admit();
      await writeDraft(this.#path, JSON.stringify(this.#state), this.#fs);
    });
  }

  get state(): UpdateState {
    return this.#state;
  }

  /** One at a time, in the order of the calls: boards are flashed in parallel. */
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
    await replaceFileDurably(this.#path, JSON.stringify(state), this.#fs);
  }

  /** A write that failed in its last step may be there after a restart: what its caller was told has not happened. */
  async #takeBack(): Promise<void> {
    try {
      await this.#write(this.#state);
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
      this.#log.warn({ code: error.code }, error.message);
    }
  }
}

/** As it stands, for who only looks: nothing is set aside, and nothing that is appended lasts. */
export async function lookAtJournal(directory: string, fs: DurableFs = ownFs): Promise<Journal> {
  try {
    const text = await readTextFile(join(directory, FILE_NAME), fs);
    const state = text === undefined ? initialState : readState(text).state;
    return new MemoryJournal(await addFloorsCopy(state, directory, fs));
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    return new MemoryJournal({ ...initialState, phase: { kind: 'lost' } });
  }
}

/** For a person who looks for the cause; the agent goes on without. */
async function setAside(path: string, text: string, log: Log, fs: DurableFs): Promise<void> {
  try {
    await replaceFileDurably(`${path}.damaged`, text, fs);
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    log.warn({ code: error.code }, error.message);
  }
}

/** For tests, and for commands that must not touch the disk. */
export class MemoryJournal implements Journal {
  #state: UpdateState;

  constructor(state: UpdateState = initialState) {
    this.#state = state;
  }

  get state(): UpdateState {
    return this.#state;
  }

  get missing(): AgentError | undefined {
    return undefined;
  }

  get trouble(): AgentError | undefined {
    return undefined;
  }

  async refresh(): Promise<void> {}

  async probe(): Promise<void> {}

  async append<T extends EventType>(event: EventOf<T>): Promise<StateAfter<T>> {
    const next = advance(this.#state, event);
    this.#state = next;
    return next;
  }
}
