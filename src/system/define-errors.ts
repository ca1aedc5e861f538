import { AgentError } from './errors.ts';
import type { ExitKind, Remedy } from './errors.ts';

/** All that is said about one error code: the only place where it is said. */
export interface ErrorMeaning {
  readonly remedy: Remedy;
  readonly exit: ExitKind;
  /** For the catalogue: what has happened, in a sentence that needs no context. */
  readonly means: string;
  /** What a person can do. Absent: nothing, or the place where it is thrown knows better. */
  readonly advice?: string;
}

/** A code that is reported and is no failure of its own: why an update waits, how an attempt ended. */
export interface CodeMeaning {
  readonly means: string;
  readonly advice?: string;
}

export interface ErrorDetail {
  /** Instead of what the code advises. */
  readonly advice?: string | undefined;
  readonly cause?: unknown;
  readonly retryAfterMs?: number | undefined;
  /** Where the place that throws knows better than the table. */
  readonly remedy?: Remedy | undefined;
  readonly exit?: ExitKind | undefined;
}

/** A class of errors and its table. */
export interface DefinedErrors<Code extends string> {
  readonly meanings: Readonly<Record<Code, ErrorMeaning>>;
  new (code: Code, message: string, detail?: ErrorDetail): AgentError & { readonly code: Code };
}

export type CodeOf<E extends { readonly meanings: object }> = Extract<keyof E['meanings'], string>;

/** Makes the class of a room's errors from their table: whoever throws one names its code, and the table says the rest. */
export function defineErrors<Code extends string>(
  name: string,
  meanings: Readonly<Record<Code, ErrorMeaning>>,
): DefinedErrors<Code> {
  return class extends AgentError {
    static readonly meanings = meanings;
    override readonly name: string = name;
    declare readonly code: Code;

    constructor(code: Code, message: string, detail: ErrorDetail = {}) {
      const { remedy, exit, advice }: ErrorMeaning = meanings[code];
      super({
        code,
        message,
        remedy: detail.remedy ?? remedy,
        exit: detail.exit ?? exit,
        advice: detail.advice ?? advice,
        retryAfterMs: detail.retryAfterMs,
        cause: detail.cause,
      });
    }
  };
}
