/** The longest time for a line, after which a stream without line ends is reported, once in this time. */
const MAX_LINE_MS = 60_000;

/** Splits a stream of bytes into lines of text. A line that is too long is dropped entirely, and reported. */
export class LineSplitter {
  readonly #maxBytes: number;
  readonly #onTooLong: (why: string) => void;
  readonly #nowMs: () => number;
  #parts: Uint8Array[] = [];
  #bytes = 0;
  /** The time of the first byte of the current line. */
  #beganMs = 0;
  /** True up to the next line end: the line is too long, or its beginning is missing. */
  #isSkipped = false;

  constructor(maxBytes: number, onTooLong: (why: string) => void, nowMs = () => performance.now()) {
    this.#maxBytes = maxBytes;
    this.#onTooLong = onTooLong;
    this.#nowMs = nowMs;
  }

  /** The lines that end in this chunk, with LF, CR LF or CR. Empty lines are left out. */
  push(chunk: Uint8Array): string[] {
    const lines: string[] = [];
    let start = 0;
    for (let index = 0; index < chunk.byteLength; index += 1) {
      if (chunk[index] !== LF && chunk[index] !== CR) continue;
      this.#keep(chunk.subarray(start, index));
      start = index + 1;
      const line = this.finish();
      if (line !== '') lines.push(line);
    }
    this.#keep(chunk.subarray(start));
    if (this.#bytes > 0 && this.#nowMs() - this.#beganMs > MAX_LINE_MS) {
      this.#onTooLong(`${this.#bytes} bytes in a minute without a line end: check the baud rate and the line end`);
      this.skipLine();
      this.#bytes = 0;
    }
    return lines;
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

  #keep(part: Uint8Array): void {
    if (this.#bytes === 0) this.#beganMs = this.#nowMs();
    this.#bytes += part.byteLength;
    if (this.#isSkipped || part.byteLength === 0) return;
    if (this.#bytes <= this.#maxBytes) {
      this.#parts.push(part.slice());
      return;
    }
    this.skipLine();
    this.#onTooLong(`a line longer than ${this.#maxBytes} bytes`);
  }
}

const LF = 0x0a;
const CR = 0x0d;
