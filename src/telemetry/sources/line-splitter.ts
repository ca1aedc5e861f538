import { sampleOf } from '../reading-text.ts';
import type { ReadingSink } from './source.ts';

/** The longest time for a line, after which a stream without line ends is reported, once in this time. */
const MAX_LINE_MS = 60_000;

/** Splits a stream of bytes into lines of text. Drops blank lines, and lines that are too long. */
export class LineSplitter {
  readonly #maxBytes: number;
  readonly #drop: ReadingSink['drop'];
  readonly #nowMs: () => number;
  #parts: Uint8Array[] = [];
  #bytes = 0;
  /** The time of the first byte of the current line. */
  #beganMs = 0;
  /** True up to the next line end: the line is too long, or its beginning is missing. */
  #isSkipped = false;
  /** True if the stream was silent within the current line. */
  #isPaused = false;
  #lastByte: number | undefined;

  constructor(maxBytes: number, drop: ReadingSink['drop'], nowMs = () => performance.now()) {
    this.#maxBytes = maxBytes;
    this.#drop = drop;
    this.#nowMs = nowMs;
  }

  /** Returns the lines that end in this chunk, with LF, CR LF or CR. */
  push(chunk: Uint8Array): string[] {
    if (this.#isPaused && chunk.byteLength > 0) this.#dropFragment(chunk);
    const lines: string[] = [];
    let start = 0;
    let blank = 0;
    for (let index = 0; index < chunk.byteLength; index += 1) {
      const byte = chunk[index];
      const isSecondHalf = byte === LF && this.#lastByte === CR;
      this.#lastByte = byte;
      if (byte !== LF && byte !== CR) continue;
      this.#keep(chunk.subarray(start, index));
      start = index + 1;
      const isBlank = !this.#isSkipped && !isSecondHalf;
      const line = this.finish();
      if (line.trim() !== '') lines.push(line);
      else blank += Number(isBlank);
    }
    if (blank > 0) this.#drop('empty', 'blank lines', blank);
    this.#keep(chunk.subarray(start));
    if (this.#bytes > 0 && this.#nowMs() - this.#beganMs > MAX_LINE_MS) this.#dropEndless();
    return lines;
  }

  /** True after the beginning of a line. */
  get isInLine(): boolean {
    return this.#bytes > 0 && !this.#isSkipped;
  }

  /**
   * Notes a silence of the stream. After a silence within a line, the next bytes are another line, of a board that was
   * reset. If they begin with the line end, the line was complete: some devices send its end with the next line.
   */
  pause(): void {
    this.#isPaused = this.isInLine;
  }

  #dropFragment([first]: Uint8Array): void {
    this.#isPaused = false;
    if (first === LF || first === CR) return;
    const text = sampleOf(this.finish());
    this.#drop('malformed', `a silence in a line, after ${text}: the device was reset, or sends no line end`);
  }

  /** Drops the current line. */
  skipLine(): void {
    this.#isSkipped = true;
    this.#parts = [];
  }

  /** Returns the text after the last line end, and begins a line. */
  finish(): string {
    const line = Buffer.concat(this.#parts).toString('utf8');
    this.#parts = [];
    this.#bytes = 0;
    this.#isSkipped = false;
    return line;
  }

  #dropEndless(): void {
    const advice = 'check the baud rate and the line end';
    this.#drop('too-long', `${this.#bytes} bytes in a minute without a line end: ${advice}`);
    this.skipLine();
    this.#bytes = 0;
  }

  #keep(part: Uint8Array): void {
    if (this.#bytes === 0) this.#beganMs = this.#nowMs();
    this.#bytes += part.byteLength;
    if (this.#isSkipped || part.byteLength === 0) return;
    if (this.#bytes <= this.#maxBytes) {
      this.#parts.push(part.slice());
      return;
    }
    this.skipLine();
    this.#drop('too-long', `a line longer than ${this.#maxBytes} bytes`);
  }
}

const LF = 0x0a;
const CR = 0x0d;
