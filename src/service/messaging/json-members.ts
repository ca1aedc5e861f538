import type { Payload } from '../../mqtt/payload.ts';

/**
 * A member of a JSON object (RFC 8259), with the place of its value in the text. The value is not parsed: one of many
 * MiB is found but not copied, and judged by whoever parses it.
 */
export interface JsonMember {
  readonly name: string;
  /** The first byte of the value; `end` is the byte behind its last one. */
  readonly start: number;
  readonly end: number;
}

export interface JsonMembers {
  readonly members: readonly JsonMember[];
  /** Why the text is not a JSON object. The members before that place were found nevertheless. */
  readonly problem: string | undefined;
}

/** The bound for a value that is no string. */
export const maxValueBytes = 1024 * 1024;
const maxScalarBytes = 1024;
const maxNameBytes = 256;
const maxMembers = 32;
const maxDepth = 64;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const END = -1;

export function findMembers(text: Payload): JsonMembers {
  const members: JsonMember[] = [];
  try {
    for (const member of objectMembers(new Cursor(text), text)) members.push(member);
    return { members, problem: undefined };
  } catch (error) {
    if (!(error instanceof NotJson)) throw error;
    return { members, problem: error.message };
  }
}

class NotJson extends Error {}

function* objectMembers(cursor: Cursor, text: Payload): Generator<JsonMember, void, undefined> {
  cursor.skipByteOrderMark();
  cursor.expect(OPEN_BRACE, 'it does not begin with "{"');
  for (let count = 0; cursor.peekToken() !== CLOSE_BRACE; count += 1) {
    if (count === maxMembers) throw new NotJson(`it has more than ${maxMembers} members`);
    if (count > 0) cursor.expect(COMMA, 'its members are not separated by ","');
    const name = readName(cursor, text);
    cursor.expect(COLON, 'a name is not followed by ":"');
    cursor.peekToken();
    const start = cursor.offset;
    cursor.skipValue();
    yield { name, start, end: cursor.offset };
  }
  cursor.expect(CLOSE_BRACE, 'it does not end with "}"');
  if (cursor.peekToken() !== END) throw new NotJson('something stands behind its end');
}

function readName(cursor: Cursor, text: Payload): string {
  if (cursor.peekToken() !== QUOTE) throw new NotJson('a member has no name');
  const start = cursor.offset;
  cursor.skipString();
  if (cursor.offset - start > maxNameBytes) throw new NotJson('a name is too long');
  const name = parseJson(text.join(start, cursor.offset));
  if (typeof name !== 'string') throw new NotJson('a name cannot be read');
  return name;
}

/** Parses JSON in UTF-8; undefined: it is neither. */
export function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof TypeError) return undefined;
    throw error;
  }
}

/** A place in a text that consists of blocks. It only moves forward. */
class Cursor {
  readonly #blocks: readonly Uint8Array[];
  #index = 0;
  #at = 0;
  #blockOffset = 0;

  constructor(text: Payload) {
    this.#blocks = text.blocks;
    this.#enter();
  }

  get offset(): number {
    return this.#blockOffset + this.#at;
  }

  /** Skips the byte order mark of UTF-8, which must not be sent but may be ignored (RFC 8259, section 8.1). */
  skipByteOrderMark(): void {
    if (this.#peek() !== 0xef) return;
    for (const byte of [0xef, 0xbb, 0xbf]) {
      if (this.#take() !== byte) throw new NotJson('it does not begin with "{"');
    }
  }

  /** The next byte that is not white space; END: there is none. */
  peekToken(): number {
    let byte = this.#peek();
    while (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) {
      this.#take();
      byte = this.#peek();
    }
    return byte;
  }

  expect(byte: number, problem: string): void {
    if (this.peekToken() === END) throw new NotJson('it ends too early');
    if (this.#take() !== byte) throw new NotJson(problem);
  }

  skipValue(): void {
    const first = this.#peek();
    if (first === QUOTE) this.skipString();
    else if (first === OPEN_BRACE || first === OPEN_BRACKET) this.#skipContainer();
    else this.#skipScalar();
  }

  /** Skips a string from its opening quotation mark to behind its closing one. */
  skipString(): void {
    this.#take();
    let escaped = false;
    for (let block = this.#blocks[this.#index]; block !== undefined; block = this.#blocks[this.#index]) {
      const string = scanString(block, this.#at, escaped);
      this.#at = string.end;
      this.#enter();
      if (string.closed) return;
      escaped = string.escaped;
    }
    throw new NotJson('it ends within a string');
  }

  #skipContainer(): void {
    const limit = this.offset + maxValueBytes;
    let depth = 0;
    do {
      const byte = this.#peek();
      if (byte === END) throw new NotJson('it ends too early');
      if (this.offset >= limit) throw new NotJson(`a member is longer than ${maxValueBytes} bytes`);
      if (byte === QUOTE) {
        this.skipString();
        continue;
      }
      if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth += 1;
      if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth -= 1;
      if (depth > maxDepth) throw new NotJson(`it is nested deeper than ${maxDepth}`);
      this.#take();
    } while (depth > 0);
  }

  #skipScalar(): void {
    const limit = this.offset + maxScalarBytes;
    for (let byte = this.#peek(); /[\w.+-]/.test(String.fromCharCode(byte)); byte = this.#peek()) {
      if (this.offset >= limit) throw new NotJson(`a number is longer than ${maxScalarBytes} characters`);
      this.#take();
    }
  }

  #peek(): number {
    return this.#blocks[this.#index]?.[this.#at] ?? END;
  }

  #take(): number {
    const byte = this.#peek();
    this.#at += 1;
    this.#enter();
    return byte;
  }

  /** Moves from the end of a block to the beginning of the next block that is not empty. */
  #enter(): void {
    for (let block = this.#blocks[this.#index]; block !== undefined; block = this.#blocks[this.#index]) {
      if (this.#at < block.byteLength) return;
      this.#blockOffset += block.byteLength;
      this.#at -= block.byteLength;
      this.#index += 1;
    }
  }
}

interface ScannedString {
  /** The place behind the closing quotation mark, or the end of the block. */
  readonly end: number;
  readonly closed: boolean;
  /** True if the block ends with a backslash, which escapes the next byte. */
  readonly escaped: boolean;
}

/** Continues inside a string. Only in a block with escapes are the bytes examined one by one. */
function scanString(block: Uint8Array, from: number, isEscaped: boolean): ScannedString {
  const quote = block.indexOf(QUOTE, from);
  const end = quote === -1 ? block.byteLength : quote + 1;
  if (!isEscaped && !block.subarray(from, end).includes(BACKSLASH)) {
    return { end, closed: quote !== -1, escaped: false };
  }
  let escaped = isEscaped;
  for (let at = from; at < block.byteLength; at += 1) {
    if (escaped) escaped = false;
    else if (block[at] === BACKSLASH) escaped = true;
    else if (block[at] === QUOTE) return { end: at + 1, closed: true, escaped };
  }
  return { end: block.byteLength, closed: false, escaped };
}
