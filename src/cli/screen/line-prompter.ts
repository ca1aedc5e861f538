import { createInterface } from 'node:readline';
import type { Interface } from 'node:readline';

import { abortable } from '../../system/abortable.ts';
import type { Prompter, TextOutput } from '../context.ts';

/** Reads answers line by line from standard input, a terminal or a pipe. */
export class LinePrompter implements Prompter {
  readonly #output: TextOutput;
  readonly #reader: Interface;
  readonly #lines: AsyncIterator<string>;

  constructor(input: NodeJS.ReadableStream, output: TextOutput) {
    this.#output = output;
    // `terminal: false`, since the terminal itself edits a line and turns Ctrl-C into a signal.
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
