import type { FirmwareFormatError } from '../errors.ts';
import { describeByte, textError } from './text-errors.ts';
import { SLICE_BYTES } from './text-kernel.ts';
import type { TextKernel } from './text-kernel.ts';

const QUOTE = 0x22;
const SPACE = 0x20;
const BACKSLASH = 0x5c;
const LETTER_U = 0x75;
const ESCAPE_BYTES = 2;
const UNICODE_ESCAPE_BYTES = 6;
/**
 * The byte order mark of UTF-8. By RFC 8259, section 8.1, it must not be sent but may be ignored; it is ignored once,
 * at the very beginning.
 */
const byteOrderMark = Buffer.from('\uFEFF', 'utf8');
const nothing = Buffer.alloc(0);

/**
 * Reads a JSON text that is one string (RFC 8259, section 7), in chunks of any size, and yields its characters in
 * constant memory. The characters are some encoding of bytes. White space (line breaks as escapes) belongs to no
 * encoding and is left out; an escape for any other character outside of all encodings is an error. Unescaped control
 * characters, which JSON forbids, are passed on, since no encoding accepts them.
 *
 * Throws `text-truncated` (retry), `text-not-a-string`, `text-bad-escape`, `text-illegal-character` or `text-trailing`,
 * after all characters before the error were yielded.
 */
export class JsonStringDecoder {
  readonly #kernel: TextKernel;
  #state: 'before' | 'inside' | 'after';
  /** The offset of the next byte. */
  #offset: number;
  #markBytes = 0;
  /** The beginning of an escape that the end of a chunk has cut. */
  #unfinished: Buffer = nothing;
  #closingOffset = 0;
  /** Thrown after the characters before it were yielded. */
  #problem: FirmwareFormatError | undefined;
  /** The origin of the last slice: the offset of its first byte, and its escaped bytes if it had escapes. */
  #sliceOffset = 0;
  #sliceInput: Buffer | undefined;

  /** `insideAt`: continue inside the string, at this offset. */
  constructor(kernel: TextKernel, insideAt?: number) {
    this.#kernel = kernel;
    this.#state = insideAt === undefined ? 'before' : 'inside';
    this.#offset = insideAt ?? 0;
  }

  /**
   * Yields the characters as bytes, in slices of at most SLICE_BYTES + 1; each is valid until the next one is
   * requested.
   */
  *push(chunk: Uint8Array): Generator<Buffer, void, undefined> {
    for (let at = 0; at < chunk.length; at += SLICE_BYTES) {
      const text = this.#take(chunk.subarray(at, at + SLICE_BYTES));
      if (text.length > 0) yield text;
      if (this.#problem !== undefined) throw this.#problem;
    }
  }

  /** Ends the text. Returns the offset of the closing quotation mark. */
  finish(): number {
    if (this.#state === 'after') return this.#closingOffset;
    const mark = this.#state === 'before' ? 'opening' : 'closing';
    throw textError('text-truncated', this.#offset, `ends before the ${mark} quotation mark`);
  }

  /** The offset where another decoder can continue inside the string; undefined outside of it. */
  get resumeOffset(): number | undefined {
    return this.#state === 'inside' ? this.#offset - this.#unfinished.length : undefined;
  }

  /** The offset in the JSON text of a character of the last slice. */
  locate(index: number): number {
    const input = this.#sliceInput;
    if (input === undefined) return this.#sliceOffset + index;
    let at = 0;
    for (let before = 0; at < input.length; at += lengthAt(input, at)) {
      if (isLeftOut(input, at)) continue;
      if (before === index) break;
      before += 1;
    }
    return this.#sliceOffset + at;
  }

  #take(slice: Uint8Array): Buffer {
    const bytes = Buffer.from(slice.buffer, slice.byteOffset, slice.length);
    const from = this.#state === 'before' ? this.#findOpening(bytes) : 0;
    let text: Buffer = nothing;
    if (this.#state === 'inside') {
      text = this.#isVerbatim(bytes, from) ? this.#verbatim(bytes, from) : this.#unescape(bytes, from);
    }
    if (this.#state === 'after') {
      this.#problem = this.#findTrailing(bytes, Math.max(0, this.#closingOffset + 1 - this.#offset));
    }
    this.#offset += bytes.length;
    return text;
  }

  #findOpening(bytes: Buffer): number {
    for (const [at, byte] of bytes.entries()) {
      const offset = this.#offset + at;
      if (offset === this.#markBytes && byte === byteOrderMark[offset]) {
        this.#markBytes += 1;
        continue;
      }
      const markIsWhole = this.#markBytes === 0 || this.#markBytes === byteOrderMark.length;
      if (markIsWhole && byte === QUOTE) {
        this.#state = 'inside';
        return at + 1;
      }
      if (!markIsWhole || !isWhiteSpace(byte)) {
        throw textError('text-not-a-string', offset, `not a JSON string: it begins with ${describeByte(byte)}`);
      }
    }
    return bytes.length;
  }

  /** True if there is neither an escape nor a space before the closing quotation mark, or the end. */
  #isVerbatim(bytes: Buffer, from: number): boolean {
    if (this.#unfinished.length > 0 || bytes.includes(SPACE, from)) return false;
    const escape = bytes.indexOf(BACKSLASH, from);
    const quote = bytes.indexOf(QUOTE, from);
    return escape === -1 || (quote !== -1 && quote < escape);
  }

  #verbatim(bytes: Buffer, from: number): Buffer {
    this.#sliceOffset = this.#offset + from;
    this.#sliceInput = undefined;
    const quote = bytes.indexOf(QUOTE, from);
    if (quote === -1) return bytes.subarray(from);
    this.#close(this.#offset + quote);
    return bytes.subarray(from, quote);
  }

  #unescape(bytes: Buffer, from: number): Buffer {
    this.#sliceOffset = this.#offset + from - this.#unfinished.length;
    const { text, input, stoppedAt } = this.#kernel.unescape(this.#unfinished, bytes.subarray(from));
    this.#sliceInput = input.subarray(0, stoppedAt);
    if (input[stoppedAt] === QUOTE) {
      this.#close(this.#sliceOffset + stoppedAt);
      return text;
    }
    this.#unfinished = Buffer.from(input.subarray(stoppedAt));
    this.#problem = findEscapeProblem(this.#unfinished, this.#sliceOffset + stoppedAt);
    return text;
  }

  #close(closingOffset: number): void {
    this.#state = 'after';
    this.#closingOffset = closingOffset;
  }

  #findTrailing(bytes: Buffer, from: number): FirmwareFormatError | undefined {
    const at = from + countWhiteSpace(bytes.subarray(from));
    if (at === bytes.length) return undefined;
    const found = describeByte(bytes[at] ?? 0);
    return textError('text-trailing', this.#offset + at, `${found} stands behind the end of the string`);
  }
}

/** The number of white space characters at the beginning of a chunk. */
export function countWhiteSpace(chunk: Uint8Array): number {
  const at = chunk.findIndex((byte) => !isWhiteSpace(byte));
  return at === -1 ? chunk.length : at;
}

/** White space of JSON: RFC 8259, section 2. */
function isWhiteSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

function lengthAt(input: Buffer, at: number): number {
  if (input[at] !== BACKSLASH) return 1;
  return input[at + 1] === LETTER_U ? UNICODE_ESCAPE_BYTES : ESCAPE_BYTES;
}

function isLeftOut(input: Buffer, at: number): boolean {
  if (input[at] !== BACKSLASH) return input[at] === SPACE;
  return /^\\(?:[nrt]|u00(?:09|0[aA]|0[dD]|20))/.test(input.toString('latin1', at, at + UNICODE_ESCAPE_BYTES));
}

/**
 * Returns the problem with an escape. `escape` is empty, or begins with an escape that the kernel refused: it is
 * incomplete at the end, or wrong.
 */
function findEscapeProblem(escape: Buffer, offset: number): FirmwareFormatError | undefined {
  const text = escape.toString('latin1', 0, UNICODE_ESCAPE_BYTES);
  if (/^(?:\\(?:u[0-9a-fA-F]{0,3})?)?$/.test(text)) return undefined;
  const [known] = /^\\(?:["\\bf]|u[0-9a-fA-F]{4})/.exec(text) ?? [];
  if (known !== undefined) {
    return textError('text-illegal-character', offset, `${known} stands for a character that no encoding has`);
  }
  const why =
    escape[1] === LETTER_U
      ? '\\u is not followed by four hexadecimal digits'
      : `a backslash and ${describeByte(escape[1] ?? 0)} are not an escape of JSON`;
  return textError('text-bad-escape', offset, why);
}
