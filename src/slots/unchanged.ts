import { alignmentBytes } from './block-pool.ts';
import { SlotError } from './errors.ts';
import type { SlotMedium } from './slot-medium.ts';

/** So many blocks in a row must differ for one less to be looked at, and no more than so many go unseen. */
const differingBlocks = 4;
const longestSkip = 15;

/**
 * Finds out which blocks a slot holds already, so that they need not be written. Where all is different, as in an image of
 * another build, it looks at fewer and fewer blocks, in the end at every sixteenth; where one is equal, at each again.
 */
export class UnchangedBlocks {
  readonly #medium: SlotMedium;
  #differing = 0;
  #skip = 0;

  constructor(medium: SlotMedium) {
    this.#medium = medium;
  }

  /** False also means: not looked at. `scratch` is written to. */
  async holds(bytes: Buffer, scratch: Buffer, position: number): Promise<boolean> {
    if (this.#skip > 0) {
      this.#skip -= 1;
      return false;
    }
    const equal = await holdsAlready(this.#medium, bytes, scratch, position);
    this.#differing = equal ? 0 : this.#differing + 1;
    this.#skip = Math.min(longestSkip, Math.floor(this.#differing / differingBlocks));
    return equal;
  }
}

/**
 * One page is read first, and the rest, piece by piece, only while all is equal, so that another image costs little. What
 * cannot be read is not equal: writing it anew may heal it.
 */
async function holdsAlready(medium: SlotMedium, bytes: Buffer, scratch: Buffer, position: number): Promise<boolean> {
  for (let done = 0; done < bytes.byteLength;) {
    const length = Math.min(done === 0 ? alignmentBytes : scratch.byteLength, bytes.byteLength - done);
    if (!(await isReadable(medium.read(scratch, length, position + done)))) return false;
    if (!scratch.subarray(0, length).equals(bytes.subarray(done, done + length))) return false;
    done += length;
  }
  return true;
}

async function isReadable(reading: Promise<void>): Promise<boolean> {
  try {
    await reading;
    return true;
  } catch (error) {
    if (error instanceof SlotError && error.code === 'slot-io-error') return false;
    throw error;
  }
}
