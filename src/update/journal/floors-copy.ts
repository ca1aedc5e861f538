import { join } from 'node:path';

import * as z from 'zod';

import { AgentError } from '../../system/errors.ts';
import { readDurableTextFile, readTextFile, replaceFileDurably } from '../../system/files/durable-file.ts';
import type { DurableFs } from '../../system/files/durable-file.ts';
import type { Log } from '../../system/log/log.ts';
import { raiseBoardFloors, raiseFloor } from '../choice/release-rules.ts';
import { floors } from './parts/floors.ts';
import type { UpdateState } from './state.ts';

const FILE_NAME = 'floors.json';

const floorsFile = z.object(floors);
type Floors = z.infer<typeof floorsFile>;

/** The floors once more, in a file of their own: a journal that was lost, or is damaged, must let no older release in. */
export class FloorsCopy {
  readonly #path: string;
  readonly #fs: DurableFs;
  readonly #log: Log;
  /** What the file holds. */
  #text: string | undefined;
  #isDamaged = false;

  constructor(directory: string, fs: DurableFs, log: Log) {
    this.#path = join(directory, FILE_NAME);
    this.#fs = fs;
    this.#log = log;
  }

  /** The state, with the higher of the floors that it and the file hold. A copy that cannot be read is none. */
  async addTo(state: UpdateState): Promise<UpdateState> {
    try {
      this.#text = await readDurableTextFile(this.#path, this.#fs);
    } catch (error) {
      this.#complain(error, 'the copy of the floors cannot be read');
      this.#isDamaged = true;
      return state;
    }
    const floors = parseFloors(this.#text);
    this.#isDamaged = floors === undefined;
    if (floors !== undefined) return withHigher(state, floors);
    this.#log.error({ path: this.#path }, 'the copy of the floors cannot be understood, and is made anew');
    await this.keep(state);
    return state;
  }

  /** It was there when it was read, and of no use. */
  get wasDamaged(): boolean {
    return this.#isDamaged;
  }

  /** Written only where it changes: nothing ends by it, since the journal holds the same. */
  async keep({ floor, boardFloors, boardVersions }: UpdateState): Promise<void> {
    const text = JSON.stringify({ floor, boardFloors, boardVersions });
    if (text === (this.#text ?? '{}')) return;
    try {
      await replaceFileDurably(this.#path, text, this.#fs);
      this.#text = text;
    } catch (error) {
      this.#complain(error, 'the copy of the floors cannot be written');
    }
  }

  #complain(error: unknown, what: string): void {
    if (!(error instanceof AgentError)) throw error;
    this.#log.error({ code: error.code }, `${what}: ${error.message}`);
  }
}

/** The same for who only looks. */
export async function addFloorsCopy(state: UpdateState, directory: string, fs: DurableFs): Promise<UpdateState> {
  return withHigher(state, parseFloors(await readTextFile(join(directory, FILE_NAME), fs)) ?? {});
}

/** Undefined: it cannot be understood. */
function parseFloors(text = '{}'): Floors | undefined {
  try {
    return floorsFile.safeParse(JSON.parse(text)).data;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function withHigher(state: UpdateState, { floor, boardFloors = {}, boardVersions = {} }: Floors): UpdateState {
  const signedBy = 'the copy';
  const boards = [...new Set([...Object.keys(boardFloors), ...Object.keys(boardVersions)])];
  const payloads = boards.map((target) => ({
    target,
    kind: 'mcu' as const,
    securityCounter: boardFloors[target],
    imageVersion: boardVersions[target],
  }));
  return {
    ...state,
    ...(floor !== undefined && { floor: raiseFloor(state.floor, { ...floor, signedBy }) }),
    ...(payloads.length > 0 && raiseBoardFloors(state, { signedBy, payloads })),
  };
}
