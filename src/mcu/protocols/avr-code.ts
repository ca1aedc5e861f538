/**
 * The data sheets, "Interrupts" and "Instruction Set Summary": in larger memories a vector has two words, and chips up to
 * this size have neither JMP nor CALL.
 */
export const smallFlashBytes = 8192;
/** The data sheets, "Interrupts": no AVR has fewer vectors. */
const leastVectors = 10;

/**
 * `gcrt1.S` of avr-libc sets the stack pointer by LDI r28, LDI r29, OUT SPH, r29 and OUT SPL, r28. Code that the program adds
 * to `.init0` and `.init1` may precede them.
 */
const [outHigh, outLow] = [0xbfde, 0xbfcd];
const mostStartupBytes = 128;

/** The data sheets, "Instruction Set Summary": chips with this much flash memory, or less, lack these instructions. */
const larger = [
  { name: 'JMP or CALL', mostBytes: smallFlashBytes, mask: 0xfe0c, code: 0x940c },
  { name: 'ELPM', mostBytes: 0x1_0000, mask: 0xffff, code: 0x95d8 },
  { name: 'ELPM', mostBytes: 0x1_0000, mask: 0xfe0e, code: 0x9006 },
  { name: 'EIJMP or EICALL', mostBytes: 0x2_0000, mask: 0xfeff, code: 0x9419 },
];

/** The addresses that may be next. The one behind a call is not among them: data may follow a call that never returns. */
interface Instruction {
  readonly ends: boolean;
  readonly next: readonly number[];
}

/**
 * The application's part of the memory as instructions ("AVR Instruction Set Manual"). Of files with 8 KiB of random
 * bytes, fewer than one in 100 pass one of the checks.
 */
export class AvrCode {
  readonly #memory: DataView;
  readonly #flashBytes: number;

  constructor({ buffer, byteOffset, byteLength }: Uint8Array, flashBytes: number) {
    this.#memory = new DataView(buffer, byteOffset, byteLength);
    this.#flashBytes = flashBytes;
  }

  /** True for a table of jumps to instructions, as compilers link it before every program for a chip with such vectors. */
  beginsWithVectors(vectorBytes: 2 | 4): boolean {
    const vectors = Array.from({ length: leastVectors }, (_, index) => this.#at(index * vectorBytes));
    return vectors.every((vector) => vector?.ends === true && vector.next.some((target) => this.#at(target)));
  }

  /** True if the first instruction is a JMP or a CALL. */
  beginsFar(): boolean {
    return isFar(this.#word(0));
  }

  /** True if each path from address 0 on consists of instructions, and one of them jumps or returns. */
  isSoundFromStart(): boolean {
    const path = [...this.#fromStart()];
    return path.every(({ instruction }) => instruction !== undefined) && path.some((step) => step.instruction?.ends);
  }

  /** Returns the name of an instruction on these paths that only larger chips have, or undefined. */
  foreignInstruction(): string | undefined {
    const foreign = larger.filter(({ mostBytes }) => this.#flashBytes <= mostBytes);
    for (const { address } of this.#fromStart()) {
      const word = this.#word(address);
      const found = foreign.find(({ mask, code }) => (word & mask) === code);
      if (found !== undefined) return found.name;
    }
    return undefined;
  }

  *#fromStart(): Generator<{ readonly address: number; readonly instruction: Instruction | undefined }> {
    const seen = new Set([0]);
    for (const address of seen) {
      const instruction = this.#at(address);
      for (const next of instruction?.next ?? []) seen.add(next);
      yield { address, instruction };
    }
  }

  /** Returns the instruction at an address, or undefined for one that the chip lacks, and behind the memory. */
  #at(address: number): Instruction | undefined {
    const word = this.#word(address);
    const end = this.#behind(address);
    if (isReserved(word) || end > this.#memory.byteLength) return undefined;
    // JMP and CALL, RJMP and RCALL, BRBS and BRBC, RET and RETI or IJMP and EIJMP
    if (isFar(word)) {
      if (this.#flashBytes <= smallFlashBytes) return undefined;
      const high = ((word >> 3) & 0x3e) | (word & 1);
      return this.#transfer((word & 2) === 0, 2 * (high * 0x1_0000 + this.#word(address + 2)), end, true);
    }
    if (word >> 13 === 6) return this.#transfer(word >> 12 === 0xc, this.#around(end, (word << 20) >> 19), end, false);
    if (word >> 11 === 0x1e) return { ends: false, next: [end, this.#around(end, ((word << 22) >> 25) * 2)] };
    if ([0x9508, 0x9409].includes(word & 0xffef)) return { ends: true, next: [] };
    return { ends: false, next: skips(word) ? [end, this.#behind(end)] : [end] };
  }

  /** Returns the stack pointer that the startup code of avr-libc sets, or undefined for other startup code. */
  initialStack(): number | undefined {
    const first = this.#at(0);
    const start = first?.ends === true ? (first.next[0] ?? 0) : 0;
    for (let at = start; at < start + mostStartupBytes; at += 2) {
      const [low, high] = [this.#word(at), this.#word(at + 2)];
      const isSet = this.#word(at + 4) === outHigh && this.#word(at + 6) === outLow;
      if (isSet && (low & 0xf0f0) === 0xe0c0 && (high & 0xf0f0) === 0xe0d0)
        return constantIn(high) * 256 + constantIn(low);
    }
    return undefined;
  }

  /** The program counter wraps around. */
  #around(end: number, offset: number): number {
    return (end + offset + this.#flashBytes) % this.#flashBytes;
  }

  /** A jump or a call. Compilers call the bootloader, and leave for it by JMP. */
  #transfer(ends: boolean, target: number, end: number, isFar: boolean): Instruction {
    const isBootloader = target >= this.#memory.byteLength && target < this.#flashBytes;
    if (isBootloader && !ends) return { ends, next: [end] };
    return { ends, next: isBootloader && isFar ? [] : [target] };
  }

  /** The address behind an instruction: JMP, CALL, LDS and STS have two words. */
  #behind(address: number): number {
    const word = this.#word(address);
    return address + (isFar(word) || (word & 0xfc0f) === 0x9000 ? 4 : 2);
  }

  /** A word; a reserved one behind the memory. */
  #word(address: number): number {
    return address + 2 > this.#memory.byteLength ? 0xffff : this.#memory.getUint16(address, true);
  }
}

/** The constant of an LDI. */
function constantIn(word: number): number {
  return ((word >> 4) & 0xf0) | (word & 0x0f);
}

function isReserved(word: number): boolean {
  return (word & 0xf808) === 0xf808 || (word > 0 && word < 0x100);
}

function isFar(word: number): boolean {
  return (word & 0xfe0c) === 0x940c;
}

/** CPSE, SBRC and SBRS, SBIC and SBIS. */
function skips(word: number): boolean {
  return word >> 10 === 4 || (word & 0xfc08) === 0xfc00 || (word & 0xfd00) === 0x9900;
}
