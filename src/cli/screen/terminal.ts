import { displayWidth } from '../../control/words/printable.ts';
import type { TextOutput } from '../context.ts';

/** The slice of tty.WriteStream that is written to; a pipe or a file has no size. */
export interface OutputStream {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

/**
 * Standard output or error as a place for text. When the reader goes away (`agent … | head -1`) the rest is dropped
 * and the work goes on: an update does not end because nobody looks.
 */
export class Terminal implements TextOutput {
  readonly #stream: OutputStream;
  #open = true;
  #pinned: string | undefined;

  constructor(stream: OutputStream) {
    this.#stream = stream;
    stream.on('error', () => {
      this.#open = false;
    });
  }

  get isTTY(): boolean {
    return this.#stream.isTTY ?? false;
  }

  get columns(): number | undefined {
    return this.isTTY ? this.#stream.columns : undefined;
  }

  write(text: string): void {
    if (this.#pinned === undefined) this.#send(text);
    else this.#send(`${this.#unpinning()}${text}${this.#pinned}`);
  }

  pin(line: string | undefined): void {
    if (!this.isTTY) return;
    this.#send(`${this.#unpinning()}${line ?? ''}`);
    this.#pinned = line;
  }

  /** To the first row that the pinned line takes, which may have been wrapped by a narrower window, and erase. */
  #unpinning(): string {
    if (this.#pinned === undefined) return '';
    const rows = Math.max(1, Math.ceil(displayWidth(this.#pinned) / (this.columns || 80)));
    const up = rows > 1 ? `\u001B[${rows - 1}A` : '';
    return `\r${up}\u001B[J`;
  }

  #send(text: string): void {
    if (this.#open && text !== '') this.#stream.write(text);
  }
}
