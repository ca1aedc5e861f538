import { SlotError } from '../errors.ts';
import type { SlotMedium } from '../slot-medium.ts';
import { alignmentBytes } from './block-pool.ts';

/**
 * After `differingBlocks` different blocks in a row, one more is skipped for each compared one, up to `longestSkip`.
 */
const differingBlocks = 4;
const longestSkip = 15;

/**
 * Finds the blocks that a slot holds already, so that they need not be written. If everything differs, as with an image
 * of another build, it compares fewer and fewer blocks, in the end every sixteenth; after an equal one it compares each
 * block again.
 */
export class UnchangedBlocks {
  readonly #medium: SlotMedium;
  #differing = 0;
  #skip = 0;

  constructor(medium: SlotMedium) {
    this.#medium = medium;
  }

  /** True if the slot holds these bytes. False also means that they were not compared. Overwrites `scratch`. */
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
 * Compares one page first, and then the rest in pieces as long as all is equal, so that a different image costs little.
 * Bytes that cannot be read count as different, since writing them may repair them.
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
