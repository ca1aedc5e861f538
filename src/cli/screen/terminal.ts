import { displayWidth } from '../../system/log/printable.ts';
import type { TextOutput } from '../context.ts';

/** The part of tty.WriteStream that is used here; a pipe or a file has no size. */
export interface OutputStream {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
  write(text: string): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

/**
 * Standard output or standard error. When the reader closes the stream (`agent … | head -1`), further text is dropped
 * and the work continues: an update does not depend on its viewer.
 */
export class Terminal implements TextOutput {
  readonly #stream: OutputStream;
  readonly #isAttended: () => boolean;
  #open = true;
  #pinned: string | undefined;

  /** `isAttended` returns false once the program that started this one has ended, as after a closed connection. */
  constructor(stream: OutputStream, isAttended = (): boolean => true) {
    this.#stream = stream;
    this.#isAttended = isAttended;
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

  get rows(): number | undefined {
    return this.isTTY ? this.#stream.rows : undefined;
  }

  get isOpen(): boolean {
    return this.#open && this.#isAttended();
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

  /** Moves to the first row of the pinned line, which a narrower window may have wrapped, and erases it. */
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
