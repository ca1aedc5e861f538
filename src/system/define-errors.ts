import { AgentError } from './errors.ts';
import type { ExitKind, Retryability } from './errors.ts';

/** Everything about one error code, stated only here. */
export interface ErrorMeaning {
  readonly remedy: Retryability;
  readonly exit: ExitKind;
  /** For the catalogue: what has happened, in a sentence that needs no context. */
  readonly means: string;
  /** The remedy for the user. Omitted if there is none, or if only the code that throws knows it. */
  readonly advice?: string | undefined;
}

/** A code that is reported but is not an error: why an update waits, or how an attempt ended. */
export interface CodeMeaning {
  readonly means: string;
  readonly advice?: string;
}

/**
 * The rows of a table: `giveUp.disk(means, advice)` gives the retryability, the exit code, the meaning and the remedy.
 */
export const permanent = rowsWith('give-up');
export const transient = rowsWith('retry');

type Row = (means: string, advice?: string) => ErrorMeaning;

function rowsWith(remedy: Retryability): Readonly<Record<ExitKind, Row>> {
  function row(exit: ExitKind): Row {
    return (means, advice) => ({ remedy, exit, means, advice });
  }
  return {
    usage: row('usage'),
    unreachable: row('unreachable'),
    failed: row('failed'),
    disk: row('disk'),
    tryAgain: row('tryAgain'),
    protocol: row('protocol'),
    refused: row('refused'),
    configuration: row('configuration'),
  };
}

export interface ErrorDetail {
  /** Replaces the advice of the table. */
  readonly advice?: string | undefined;
  readonly cause?: unknown;
  readonly retryAfterMs?: number | undefined;
  /** Replaces the remedy of the table where the place that throws knows better. */
  readonly remedy?: Retryability | undefined;
  readonly exit?: ExitKind | undefined;
}

/** A class of errors and its table. */
export interface DefinedErrors<Code extends string> {
  readonly meanings: Readonly<Record<Code, ErrorMeaning>>;
  new (code: Code, message: string, detail?: ErrorDetail): AgentError & { readonly code: Code };
}

export type CodeOf<E extends { readonly meanings: object }> = Extract<keyof E['meanings'], string>;

/**
 * Returns a module's error class, made from its table. The code that throws names an error code; the table has the
 * rest.
 */
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
