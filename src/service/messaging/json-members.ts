import type { Payload } from '../../mqtt/payload.ts';

/**
 * Where the members of a JSON object (RFC 8259) stand in its text, without parsing their values: a value of many MiB is
 * found, not copied. Values are delimited here and judged by whoever parses them.
 */
export interface JsonMember {
  readonly name: string;
  /** Of the value: its first byte, and the one after its last. */
  readonly start: number;
  readonly end: number;
}

export interface JsonMembers {
  readonly members: readonly JsonMember[];
  /** Why the text is not a JSON object; the members before that place are there all the same. */
  readonly problem: string | undefined;
}

/** A value that is no string. */
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

/** Undefined: it is not JSON in UTF-8. */
export function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof TypeError) return undefined;
    throw error;
  }
}

/** A place in a text that lies in blocks. Moves forward only. */
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

  /** UTF-8's. RFC 8259, section 8.1: must not be sent, may be ignored. */
  skipByteOrderMark(): void {
    if (this.#peek() !== 0xef) return;
    for (const byte of [0xef, 0xbb, 0xbf]) {
      if (this.#take() !== byte) throw new NotJson('it does not begin with "{"');
    }
  }

  /** The next byte that is no white space; END: there is none. */
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

  /** From one quotation mark to behind the next that is not escaped. */
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

  /** At the end of a block: to the beginning of the next that is not empty. */
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
  /** Behind the closing quotation mark, or the end of the block. */
  readonly end: number;
  readonly closed: boolean;
  /** The block ends with a backslash that escapes what follows. */
  readonly escaped: boolean;
}

/** Goes on inside a string. The bytes are looked at one by one only in a block that has escapes. */
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
