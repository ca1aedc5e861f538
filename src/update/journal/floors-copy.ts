import { join } from 'node:path';

import { AgentError } from '../../system/errors.ts';
import {
  NoFileError,
  readDurableTextFile,
  readTextFile,
  replaceFileOrForeign,
  StorageError,
  replaceForeignFile,
} from '../../system/files/durable-file.ts';
import type { DurableFs } from '../../system/files/durable-file.ts';
import { parsedJson } from '../../system/json-value.ts';
import type { Log } from '../../system/log/log.ts';
import { raiseFloor } from './places.ts';
import { floors } from './schema.ts';
import type { Floors, UpdateState } from './state.ts';

const FILE_NAME = 'floors.json';

/**
 * Guarantee `floors`: a second copy of the floors in a file of its own, so that a lost or damaged journal lets no older
 * release in.
 */
export class FloorsCopy {
  readonly #path: string;
  readonly #fs: DurableFs;
  readonly #log: Log;
  /** The text of the file. */
  #text: string | undefined;
  #isDamaged = false;
  /** Something other than a file is at its path, which waiting does not fix. */
  #isObstructed = false;
  #complained: string | undefined;

  constructor(directory: string, fs: DurableFs, log: Log) {
    this.#path = join(directory, FILE_NAME);
    this.#fs = fs;
    this.#log = log;
  }

  /**
   * Returns the state with the higher of its own minimum versions and the file's. An unreadable file adds
   * nothing.
   */
  async addTo(state: UpdateState): Promise<UpdateState> {
    try {
      this.#text = await readDurableTextFile(this.#path, this.#fs);
    } catch (error) {
      this.#complain(error, 'the copy of the floors cannot be read');
      this.#isDamaged = true;
      this.#isObstructed = error instanceof NoFileError;
      return state;
    }
    this.#isObstructed = false;
    const floors = parseFloors(this.#text);
    this.#isDamaged = floors === undefined;
    if (floors !== undefined) return withHigher(state, floors);
    this.#log.error({ path: this.#path }, 'the copy of the floors is unreadable, and is written again');
    await this.keep(state);
    return state;
  }

  /** True if the file existed when it was read, but could not be used. */
  get wasDamaged(): boolean {
    return this.#isDamaged;
  }

  /**
   * Writes the file if the minimum versions changed, or if something other than a file is at its path, which is set
   * aside. A failure ends nothing, since the journal has the same content.
   */
  async keep(state: UpdateState): Promise<void> {
    // it may have been removed
    const { floor, boardFloors } = this.#isObstructed ? await this.addTo(state) : state;
    const text = JSON.stringify({ floor, boardFloors });
    if (text === (this.#text ?? '{}') && !this.#isObstructed) return;
    try {
      await this.#write(text);
      this.#text = text;
      this.#isObstructed = false;
      this.#complained = undefined;
    } catch (error) {
      this.#complain(error, 'the copy of the floors cannot be written');
    }
  }

  async #write(text: string): Promise<void> {
    const replace = this.#isObstructed ? replaceForeignFile : replaceFileOrForeign;
    const aside = await replace(this.#path, text, this.#fs);
    if (aside !== undefined) this.#log.error({ path: this.#path, aside }, 'not a copy of the floors: set aside');
  }

  /** Logs each trouble once. */
  #complain(error: unknown, what: string): void {
    if (!(error instanceof AgentError)) throw error;
    if (error.message === this.#complained) return;
    this.#complained = error.message;
    this.#log.error({ code: error.code }, `${what}: ${error.message}`);
  }
}

/** The same for a mere look. A file that cannot be read adds nothing here, either. */
export async function addFloorsCopy(state: UpdateState, directory: string, fs: DurableFs): Promise<UpdateState> {
  try {
    return withHigher(state, parseFloors(await readTextFile(join(directory, FILE_NAME), fs)) ?? {});
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    return state;
  }
}

/** Returns the minimum versions in a text, or undefined if it is unreadable. */
function parseFloors(text = '{}'): Floors | undefined {
  return floors.safeParse(parsedJson(text)).data;
}

function withHigher(state: UpdateState, { floor, boardFloors = {} }: Floors): UpdateState {
  const boards = { ...state.boardFloors };
  for (const [name, board] of Object.entries(boardFloors)) boards[name] = raiseFloor(boards[name], board);
  return {
    ...state,
    ...(floor !== undefined && { floor: raiseFloor(state.floor, floor) }),
    ...(Object.keys(boards).length > 0 && { boardFloors: boards }),
  };
}
