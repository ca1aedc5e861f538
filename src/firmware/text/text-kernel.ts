import { PlainTextKernel } from './plain-text-kernel.ts';

/** The text decoder never takes more than this at once, so that other work gets its turn. */
export const SLICE_BYTES = 64 * 1024;

/** Room behind a slice, for the beginning of an escape before it, and for stores of whole blocks. */
const SLACK_BYTES = 64;
const REGION_BYTES = SLICE_BYTES + SLACK_BYTES;

/** The regions of the kernel's memory: the text of the JSON string, its characters, hexadecimal text, its bytes. */
const ESCAPED_AT = 0;
const UNESCAPED_AT = REGION_BYTES;
const HEX_AT = 2 * REGION_BYTES;
const UNHEXED_AT = 3 * REGION_BYTES;

interface KernelExports {
  readonly memory: { readonly buffer: ArrayBuffer };
  readonly written: { readonly value: number };
  readonly unescape: (at: number, end: number, out: number) => number;
  readonly unhex: (at: number, end: number, out: number) => number;
}

/** The part of the WebAssembly JavaScript Interface that is used here. The exports are those of text-kernel.wat. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: KernelExports };
  readonly validate: (bytes: Uint8Array) => boolean;
};

/** `text` and `bytes` are valid until the next call of the same method. */
export interface Unescaped {
  readonly text: Buffer;
  /**
   * The examined bytes, and the index where it stopped: at the end, a quotation mark, or an escape that is cut or
   * unknown.
   */
  readonly input: Buffer;
  readonly stoppedAt: number;
}

/** The inner loops over escaped text and over hexadecimal text. */
export interface TextKernel {
  /** Unescapes the inside of a JSON string: the unfinished escape before the slice, then the slice. */
  readonly unescape: (unfinished: Uint8Array, slice: Uint8Array) => Unescaped;
  /** Decodes pairs of hexadecimal digits, as many as there are in whole blocks of sixteen. */
  readonly unhex: (text: Uint8Array) => Buffer;
}

let knownVectors: boolean | undefined;

/**
 * Whether WebAssembly has vectors here; it needs SSE4.1, which older gateways lack. This is asked once, since it takes
 * 1 ms.
 */
function processorHasVectors(): boolean {
  knownVectors ??= WebAssembly.validate(compiledKernel());
  return knownVectors;
}

export function openTextKernel(hasVectors: boolean = processorHasVectors()): TextKernel {
  return hasVectors ? new VectorTextKernel() : new PlainTextKernel();
}

/**
 * Takes sixteen characters at a time. In JavaScript these loops were the slowest part of an update: escapes 1.6 GB/s by
 * JSON.parse against 2.5 to 5 here, hexadecimal 1.8 GB/s by Buffer against 4.5. Base64 without escapes needs neither
 * (20 GB/s by Buffer).
 */
export class VectorTextKernel implements TextKernel {
  readonly #exports: KernelExports;
  readonly #memory: Buffer;

  constructor() {
    this.#exports = new WebAssembly.Instance(new WebAssembly.Module(compiledKernel())).exports;
    this.#memory = Buffer.from(this.#exports.memory.buffer);
  }

  unescape(unfinished: Uint8Array, slice: Uint8Array): Unescaped {
    const length = unfinished.length + slice.length;
    requireRoom(length);
    this.#memory.set(unfinished, ESCAPED_AT);
    this.#memory.set(slice, ESCAPED_AT + unfinished.length);
    const stoppedAt = this.#exports.unescape(ESCAPED_AT, ESCAPED_AT + length, UNESCAPED_AT) - ESCAPED_AT;
    return {
      text: this.#memory.subarray(UNESCAPED_AT, UNESCAPED_AT + this.#exports.written.value),
      input: this.#memory.subarray(ESCAPED_AT, ESCAPED_AT + length),
      stoppedAt,
    };
  }

  unhex(text: Uint8Array): Buffer {
    requireRoom(text.length);
    this.#memory.set(text, HEX_AT);
    this.#exports.unhex(HEX_AT, HEX_AT + text.length, UNHEXED_AT);
    return this.#memory.subarray(UNHEXED_AT, UNHEXED_AT + this.#exports.written.value);
  }
}

function requireRoom(length: number): void {
  if (length > REGION_BYTES - 16) throw new RangeError(`${length} bytes at once; cut them into slices`);
}

/** The module in the binary format of WebAssembly. */
export function compiledKernel(): Buffer {
  return Buffer.from(compiled.join(''), 'base64');
}

/** `wat2wasm text-kernel.wat --output=- | base64 --wrap=108` (wabt 1.0.32) */
const compiled = [
  'AGFzbQEAAAABEwNgA39/fwF/YAJ/fwF/YAF/AX8DBQQAAQIABQMBAAYGBgF/AUEACwcnBAZtZW1vcnkCAAd3cml0dGVuAwAIdW5lc2NhcGUA',
  'AAV1bmhleAADCucEBN0BAwF/AXsDfyACIQMCQANAIABBEGogAU0EQCAA/QAAACEEIAIgBP0LAAAgBEEg/Q/9IyAEQSL9D/0jIARB3AD9D/0j',
  '/VD9UP1kIQUgBUUEQCAAQRBqIQAgAkEQaiECDAILIAAgBWhqIQAgAiAFaGohAgsgACABTw0BIAAtAAAhBiAGQSJGDQFBASEHIAZB3ABGBEAg',
  'ACABEAEhBiAGQQBIDQJBBkECIAAtAAFB9QBGGyEHCyAAIAdqIQAgBkEgRwRAIAIgBjoAACACQQFqIQILDAALCyACIANrJAAgAAusAQEBfyAA',
  'QQJqIAFLBEBBfw8LIAAtAAEhAiACQS9GBEBBLw8LIAJB7gBGBEBBIA8LIAJB8gBGBEBBIA8LIAJB9ABGBEBBIA8LIAJB9QBHBEBBfw8LIABB',
  'BmogAUsEQEF/DwsgAC8AAkGw4ABHBEBBfw8LIAAtAAQQAkEEdCAALQAFEAJyIQIgAkH+AEsEQEF/DwsgAkEgTwRAIAIPC0EgQX9BgMwAIAJ2',
  'QQFxGwsvAQF/IABBMGshASABQQpJBEAgAQ8LIABBIHJB4QBrIQEgAUEKakH/ASABQQZJGwunAQIBfwV7IAIhAwJAA0AgAEEQaiABSw0BIAD9',
  'AAAAIQQgBEEw/Q/9cSEFIAVBCv0P/SYhByAEQSD9D/1QQeEA/Q/9cSEGIAcgBkEG/Q/9Jv1Q/WNFDQEgBSAGQQr9D/1uIAf9UiEIQf8B/RAg',
  'CEEE/YsBIAhBCP2NAf1Q/U4hCCACIAggCP1m/VsAAAAgAEEQaiEAIAJBCGohAgwACwsgAiADayQAIAAL',
];
