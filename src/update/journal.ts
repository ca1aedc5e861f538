import * as realFs from 'node:fs/promises';
import { join } from 'node:path';

import { readDurableTextFile, replaceFileDurably, StorageError } from '../system/durable-file.ts';
import type { DurableFs } from '../system/durable-file.ts';
import { describeError } from '../system/errors.ts';
import type { Log } from '../system/log.ts';
import type { UpdateEvent } from './events.ts';
import { initialState, updateState } from './state.ts';
import type { UpdateState } from './state.ts';
import { advance } from './transitions.ts';

/** The durable record of where the running update stands. */
export interface Journal {
  readonly state: UpdateState;
  /** Returns when the event is durable; the state changes only then. */
  append(event: UpdateEvent): Promise<UpdateState>;
}

const FILE_NAME = 'journal.json';

/** Keeps the journal in one small file of the state directory, replaced as a whole by each event. */
export class FileJournal implements Journal {
  readonly #path: string;
  readonly #fs: DurableFs;
  readonly #log: Log;
  #state: UpdateState;
  #last: Promise<unknown> = Promise.resolve();

  private constructor(path: string, state: UpdateState, { fs, log }: { readonly fs: DurableFs; readonly log: Log }) {
    this.#path = path;
    this.#log = log;
    this.#state = state;
    this.#fs = fs;
  }

  /**
   * Of an unreadable journal a copy is set aside, and what runs is kept only if it is healthy (recover.ts, `lost`). It
   * stays in its place until something is appended: a journal that is missing would mean that nothing is under way.
   */
  static async open(directory: string, log: Log, fs: DurableFs = realFs): Promise<FileJournal> {
    const path = join(directory, FILE_NAME);
    const text = await readDurableTextFile(path, fs);
    if (text === undefined) return new FileJournal(path, initialState, { fs, log });
    const parsed = parseState(text);
    if (parsed.state !== undefined) return new FileJournal(path, parsed.state, { fs, log });
    log.error({ path, why: parsed.why }, 'the journal is damaged and is set aside');
    await setAside(path, text, log, fs);
    return new FileJournal(path, { ...initialState, phase: { kind: 'lost' } }, { fs, log });
  }

  get state(): UpdateState {
    return this.#state;
  }

  /** One at a time, in the order of the calls: boards are flashed in parallel. */
  async append(event: UpdateEvent): Promise<UpdateState> {
    const turn = this.#last.then(async () => this.#append(event));
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  async #append(event: UpdateEvent): Promise<UpdateState> {
    const next = advance(this.#state, event);
    try {
      await this.#write(next);
    } catch (error) {
      await this.#takeBack();
      throw error;
    }
    this.#state = next;
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

/** For a person who looks for the cause; the agent goes on without. */
async function setAside(path: string, text: string, log: Log, fs: DurableFs): Promise<void> {
  try {
    await replaceFileDurably(`${path}.damaged`, text, fs);
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    log.warn({ code: error.code }, error.message);
  }
}

type Parsed =
  | { readonly state: UpdateState; readonly why?: undefined }
  | { readonly state?: undefined; readonly why: string };

function parseState(text: string): Parsed {
  try {
    const result = updateState.safeParse(JSON.parse(text));
    return result.success ? { state: result.data } : { why: result.error.issues[0]?.message ?? 'not a journal' };
  } catch (error) {
    return { why: describeError(error) };
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

  async append(event: UpdateEvent): Promise<UpdateState> {
    this.#state = advance(this.#state, event);
    return this.#state;
  }
}
