import { constants, inflateSync } from 'node:zlib';

import type { EspTraits } from './esp-traits.ts';
import type { SpiFlash } from './spi-flash.ts';

const sectorBytes = 4096;
const blockBytes = 65_536;
const sectorsPerBlock = 16;
const [failed, deflateError, parameterError] = [0x06, 0x0b, 0x0d];

interface Beginning {
  readonly deflated: boolean;
  readonly size: number;
  readonly packetBytes: number;
  readonly offset: number;
}

export type Taken =
  | { readonly error: undefined; readonly workMs: number }
  | { readonly error: number; readonly why: string };

/** The state of a loader between its start command and the last data packet. */
export class EspDownload {
  readonly #flash: SpiFlash;
  readonly #traits: EspTraits;
  #begun: Beginning | undefined;
  #expected = 0;
  #deflated: Buffer = Buffer.alloc(0);
  #written = 0;
  #erasedTo = 0;
  #isStub = false;

  constructor(flash: SpiFlash, traits: EspTraits) {
    this.#flash = flash;
    this.#traits = traits;
  }

  becomeStub(): void {
    this.#isStub = true;
    this.#begun = undefined;
  }

  /** Returns the duration: a ROM erases now, the stub while it writes. Undefined if the range is outside the memory. */
  begin(beginning: Beginning): number | undefined {
    const { size, offset } = beginning;
    if (offset + size > this.#flash.bytes.byteLength) return undefined;
    this.#begun = beginning;
    this.#expected = 0;
    this.#written = 0;
    this.#deflated = Buffer.alloc(0);
    this.#erasedTo = offset;
    if (size === 0 || this.#isStub) return 0;
    return this.#flash.erase(offset, offset + (this.#traits.modern ? size : erasedByOldRom(offset, size)));
  }

  /** A packet whose checksum is right. */
  take(part: Uint8Array, sequence: number, deflated: boolean): Taken {
    const begun = this.#begun;
    if (begun?.deflated !== deflated) {
      return { error: failed, why: 'data before a beginning' };
    }
    const again = sequence === this.#expected - 1;
    if (sequence !== this.#expected && !(again && this.#traits.takesTwice)) {
      return { error: failed, why: `packet ${sequence} instead of ${this.#expected}` };
    }
    if (part.byteLength > begun.packetBytes) return { error: failed, why: 'a packet longer than announced' };
    if (!again) this.#expected += 1;
    const fresh = deflated ? this.#inflate(part) : part;
    if (fresh === undefined) return { error: deflateError, why: 'data that do not inflate' };
    if (deflated && this.#written + fresh.byteLength > begun.size) {
      return { error: parameterError, why: 'more data than were announced' };
    }
    const at = begun.offset + this.#written;
    this.#written += fresh.byteLength;
    const workMs = this.#eraseUpTo(at + fresh.byteLength) + this.#flash.program(at, fresh);
    return { error: undefined, workMs };
  }

  #inflate(part: Uint8Array): Uint8Array | undefined {
    this.#deflated = Buffer.concat([this.#deflated, part]);
    try {
      return inflateSync(this.#deflated, { finishFlush: constants.Z_SYNC_FLUSH }).subarray(this.#written);
    } catch (error) {
      if (error instanceof Error && 'code' in error) return undefined;
      throw error;
    }
  }

  #eraseUpTo(end: number): number {
    let ms = 0;
    if (!this.#isStub || this.#begun === undefined) return ms;
    const last = this.#begun.offset + this.#begun.size;
    while (this.#erasedTo < end) {
      const whole = this.#erasedTo % blockBytes === 0 && last - this.#erasedTo >= blockBytes;
      const to = this.#erasedTo + (whole ? blockBytes : sectorBytes);
      ms += this.#flash.erase(this.#erasedTo, to);
      this.#erasedTo = to;
    }
    return ms;
  }
}

/** "Erase Size Bug": what is erased up to the next multiple of 16 sectors is not counted. */
function erasedByOldRom(offset: number, size: number): number {
  const told = Math.ceil(size / sectorBytes);
  const head = sectorsPerBlock - (Math.floor(offset / sectorBytes) % sectorsPerBlock);
  return (Math.min(told, head) + told) * sectorBytes;
}
