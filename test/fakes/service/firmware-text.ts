import type { FirmwareContent } from './firmware-content.ts';

/** The encoding of an image as one JSON string. interface.md names no encoding: each of these is plausible. */
export interface TextStyle {
  readonly encoding: 'base64' | 'base64url' | 'hex';
  /** Padding of base64: `=` at the end. */
  readonly padding: boolean;
  /** Characters between line breaks (`\n` in the JSON string); 0: none. A multiple of 4, of 2 for hex. */
  readonly lineLength: number;
  /** `solidus`: `/` as `\/`. `unicode`: every character as `\u00..`. `mixed`: every seventh. */
  readonly escapes: 'none' | 'solidus' | 'unicode' | 'mixed';
  /** White space before and after the JSON string. */
  readonly surroundings: string;
}

export const plainStyle: TextStyle = {
  encoding: 'base64',
  padding: true,
  lineLength: 0,
  escapes: 'none',
  surroundings: '',
};

/** Encoded firmware of the service, readable at any offset. */
export interface ReadableText {
  readonly sizeBytes: number;
  /** Yields the bytes from `first` up to `end`, exclusive. Each piece is valid until the next read. */
  read(first?: number, end?: number): Generator<Buffer, void, undefined>;
  close?(): void;
}

/** Encoded firmware, readable at any offset, made block by block when it is read. */
export class FirmwareText implements ReadableText {
  readonly sizeBytes: number;
  readonly #content: FirmwareContent;
  readonly #style: TextStyle;
  readonly #blockBytes: number;
  /** Offset of each block's text, if the length of a block's text depends on its content. */
  readonly #starts: readonly number[] | undefined;
  readonly #fullBlockLength: number;
  readonly #opening: Buffer;
  readonly #closing: Buffer;

  constructor(content: FirmwareContent, style: TextStyle = plainStyle) {
    this.#content = content;
    this.#style = style;
    this.#blockBytes = blockBytesOf(style);
    this.#opening = Buffer.from(`${style.surroundings}"`);
    this.#closing = Buffer.from(`"${style.surroundings}`);
    this.#fullBlockLength = encode(Buffer.alloc(this.#blockBytes), style).byteLength;
    this.#starts = style.escapes === 'solidus' ? this.#scan() : undefined;
    this.sizeBytes = this.#opening.byteLength + this.#bodyLength() + this.#closing.byteLength;
  }

  *read(first = 0, end = this.sizeBytes): Generator<Buffer, void, undefined> {
    let position = first;
    for (const { start, make } of this.#piecesFrom(first)) {
      if (start >= end) return;
      const piece = make();
      const part = piece.subarray(position - start, end - start);
      position = Math.max(position, start + piece.byteLength);
      if (part.byteLength > 0) yield part;
    }
  }

  *#piecesFrom(position: number): Generator<{ readonly start: number; readonly make: () => Buffer }> {
    const bodyStart = this.#opening.byteLength;
    const bodyEnd = this.sizeBytes - this.#closing.byteLength;
    if (position < bodyStart) yield { start: 0, make: () => this.#opening };
    const first = this.#blockAt(Math.max(position - bodyStart, 0));
    for (let index = first; index < this.#blockCount; index += 1) {
      yield { start: bodyStart + this.#startOf(index), make: () => this.#block(index) };
    }
    yield { start: bodyEnd, make: () => this.#closing };
  }

  get #blockCount(): number {
    return Math.ceil(this.#content.sizeBytes / this.#blockBytes);
  }

  #block(index: number): Buffer {
    const offset = index * this.#blockBytes;
    const length = Math.min(this.#blockBytes, this.#content.sizeBytes - offset);
    return encode(this.#content.read(offset, length), this.#style);
  }

  #startOf(index: number): number {
    return this.#starts?.[index] ?? index * this.#fullBlockLength;
  }

  #blockAt(bodyOffset: number): number {
    if (this.#starts === undefined) return Math.floor(bodyOffset / this.#fullBlockLength);
    const next = this.#starts.findIndex((start) => start > bodyOffset);
    return next === -1 ? this.#starts.length : next - 1;
  }

  #bodyLength(): number {
    if (this.#starts !== undefined) return this.#starts.at(-1) ?? 0;
    if (this.#blockCount === 0) return 0;
    const last = this.#blockCount - 1;
    return last * this.#fullBlockLength + this.#block(last).byteLength;
  }

  #scan(): readonly number[] {
    const starts = [0];
    for (let index = 0; index < this.#blockCount; index += 1) {
      starts.push((starts[index] ?? 0) + this.#block(index).byteLength);
    }
    return starts;
  }
}

/** A block is whole lines, and whole groups of three bytes. */
function blockBytesOf({ encoding, lineLength }: TextStyle): number {
  const charactersPerGroup = encoding === 'hex' ? 2 : 4;
  const bytesPerGroup = encoding === 'hex' ? 1 : 3;
  if (lineLength % charactersPerGroup !== 0) {
    throw new RangeError(`the line length ${lineLength} is not a multiple of ${charactersPerGroup}`);
  }
  const unit = lineLength === 0 ? 3 : (lineLength / charactersPerGroup) * bytesPerGroup;
  return unit * Math.max(1, Math.floor(49_152 / unit));
}

function encode(bytes: Buffer, style: TextStyle): Buffer {
  const padded = bytes.toString(style.encoding);
  const text = style.padding ? pad(padded, style.encoding) : padded.replace(/=+$/, '');
  return Buffer.from(escapeText(text, style), 'latin1');
}

/** Node leaves the padding of base64url out. */
function pad(text: string, encoding: TextStyle['encoding']): string {
  return encoding === 'base64url' ? text.padEnd(Math.ceil(text.length / 4) * 4, '=') : text;
}

function escapeText(text: string, { escapes, lineLength }: TextStyle): string {
  if (lineLength === 0) return escapeCharacters(text, escapes);
  const lines = text.match(new RegExp(`.{1,${lineLength}}`, 'g')) ?? [];
  return lines.map((line) => `${escapeCharacters(line, escapes)}\\n`).join('');
}

function escapeCharacters(text: string, escapes: TextStyle['escapes']): string {
  switch (escapes) {
    case 'none':
      return text;
    case 'solidus':
      return text.replaceAll('/', '\\/');
    case 'unicode':
      return text.replaceAll(/./g, unicodeEscape);
    case 'mixed':
      return text.replaceAll(/(.{0,6})(.)/g, (_, before: string, one: string) => `${before}${unicodeEscape(one)}`);
  }
}

function unicodeEscape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
