import { createInterface } from 'node:readline';
import type { Interface } from 'node:readline';

import { abortable } from '../../system/abortable.ts';
import type { Person, TextOutput } from '../context.ts';

/** Who types at standard input, or what a pipe holds there, line by line. */
export class Typist implements Person {
  readonly #output: TextOutput;
  readonly #reader: Interface;
  readonly #lines: AsyncIterator<string>;

  constructor(input: NodeJS.ReadableStream, output: TextOutput) {
    this.#output = output;
    // The terminal itself edits a line, and makes a signal of Ctrl-C.
    this.#reader = createInterface({ input, terminal: false });
    this.#lines = this.#reader[Symbol.asyncIterator]();
  }

  async ask(question: string, signal: AbortSignal): Promise<string | undefined> {
    this.#output.write(`${question} `);
    const line = await abortable(this.#lines.next(), signal);
    if (line.done !== true) return line.value.trim();
    this.#output.write('\n');
    return undefined;
  }

  [Symbol.dispose](): void {
    this.#reader.close();
  }
}
