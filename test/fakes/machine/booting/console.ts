interface Waiting {
  readonly pattern: RegExp;
  readonly resolve: (line: string) => void;
  readonly reject: (error: Error) => void;
}

const SHOWN_LINES = 60;

/** The lines of a machine's console, in order; a reader waits for one that matches, and then for one after it. */
export class Console {
  readonly lines: string[] = [];
  readonly #deadlineMs: number;
  #read = 0;
  #waiting: Waiting | undefined;
  #closed: string | undefined;

  /** For each line that a reader names no deadline for. */
  constructor(deadlineMs = 60_000) {
    this.#deadlineMs = deadlineMs;
  }

  say(line: string): void {
    this.lines.push(line);
    const waiting = this.#waiting;
    if (waiting === undefined || !waiting.pattern.test(line)) return;
    this.#waiting = undefined;
    this.#read = this.lines.length;
    waiting.resolve(line);
  }

  /** After a close. */
  open(): void {
    this.#closed = undefined;
  }

  /** Ends the output. */
  close(why: string): void {
    this.#closed = why;
    this.#waiting?.reject(this.#failure(`${why}; waited for ${String(this.#waiting.pattern)}`));
    this.#waiting = undefined;
  }

  /** Returns the next line that matches, after the previously awaited one. */
  async until(pattern: RegExp, deadlineMs = this.#deadlineMs): Promise<string> {
    for (const [index, line] of this.lines.entries()) {
      if (index < this.#read || !pattern.test(line)) continue;
      this.#read = index + 1;
      return line;
    }
    if (this.#closed !== undefined) throw this.#failure(`${this.#closed}; waited for ${String(pattern)}`);
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    this.#waiting = { pattern, resolve, reject };
    const timer = setTimeout(() => reject(this.#failure(`no line ${String(pattern)}`)), deadlineMs);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Returns a function for all later lines, to check for unexpected output. */
  get mark(): () => readonly string[] {
    const from = this.lines.length;
    return () => this.lines.slice(from);
  }

  #failure(why: string): Error {
    return new Error(`${why}\n${this.lines.slice(-SHOWN_LINES).join('\n')}`);
  }
}
