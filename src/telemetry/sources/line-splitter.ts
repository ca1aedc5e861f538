/** Splits a stream of bytes into lines of text. A line that is too long is dropped entirely, and reported. */
export class LineSplitter {
  readonly #maxBytes: number;
  readonly #onTooLong: (why: string) => void;
  #parts: Uint8Array[] = [];
  #bytes = 0;
  /** True up to the next line end: the line is too long, or its beginning is missing. */
  #isSkipped = false;

  constructor(maxBytes: number, onTooLong: (why: string) => void) {
    this.#maxBytes = maxBytes;
    this.#onTooLong = onTooLong;
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
    if (this.#isSkipped || part.byteLength === 0) return;
    this.#bytes += part.byteLength;
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
