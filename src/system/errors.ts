import { cutText, maskAddresses } from './log/secrets.ts';

/** `retry`: waiting may fix the failure. `give-up`: it needs another input or an operator. */
export type Retryability = 'retry' | 'give-up';

/** Exit codes of the program, after sysexits.h. */
export const exitCodes = {
  done: 0,
  usage: 64,
  unreachable: 69,
  failed: 70,
  disk: 74,
  tryAgain: 75,
  protocol: 76,
  refused: 77,
  configuration: 78,
} as const;

export type ExitKind = Exclude<keyof typeof exitCodes, 'done'>;

export interface Failure {
  /** The code: stable, kebab-case, listed in docs/error-codes.md, never reworded. */
  readonly code: string;
  /** One line for people: the failed operation, its object and the reason. It contains no secret and no stack. */
  readonly message: string;
  readonly remedy: Retryability;
  readonly exit: ExitKind;
  /** One line: the remedy. */
  readonly advice?: string | undefined;
  /** The pause that the server requested. */
  readonly retryAfterMs?: number | undefined;
  readonly cause?: unknown;
}

/** An expected failure. Anything else that is thrown is a defect, or the reason of an aborted signal. */
export class AgentError extends Error {
  override readonly name: string = 'AgentError';
  readonly code: string;
  readonly remedy: Retryability;
  readonly exit: ExitKind;
  readonly advice: string | undefined;
  readonly retryAfterMs: number | undefined;

  constructor(failure: Failure) {
    super(failure.message, failure.cause === undefined ? undefined : { cause: failure.cause });
    this.code = failure.code;
    this.remedy = failure.remedy;
    this.exit = failure.exit;
    this.advice = failure.advice;
    this.retryAfterMs = failure.retryAfterMs;
  }
}

/** Returns the value, or the AgentError that was thrown instead. Any other error is thrown. */
export async function valueOrError<T>(value: Promise<T>): Promise<T | AgentError> {
  try {
    return await value;
  } catch (error) {
    if (error instanceof AgentError) return error;
    throw error;
  }
}

/** Returns the value, or undefined after an expected error. Throws any other error. */
export async function undefinedIf<T>(
  isExpected: (error: unknown) => boolean,
  value: Promise<T>,
): Promise<T | undefined> {
  try {
    return await value;
  } catch (error) {
    if (isExpected(error)) return undefined;
    throw error;
  }
}

/** Returns the result of the work, or undefined after an expected error. Throws any other error. */
export function undefinedIfThrows<T>(isExpected: (error: unknown) => boolean, work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (isExpected(error)) return undefined;
    throw error;
  }
}

/** True for an error of a parser: of JSON, of a regular expression, or of text with percent signs. */
export function isSyntaxError(error: unknown): boolean {
  return error instanceof SyntaxError || error instanceof URIError;
}

/** The value; undefined where the system refuses it, as with ENOENT. Any error without a code is thrown. */
export async function valueOrUndefined<T>(value: Promise<T>): Promise<T | undefined> {
  return undefinedIf((error) => systemErrorCode(error) !== undefined, value);
}

/** Returns the value, or undefined if the file is missing (ENOENT). Throws any other error. */
export async function undefinedIfMissing<T>(value: Promise<T>): Promise<T | undefined> {
  return undefinedIf((error) => systemErrorCode(error) === 'ENOENT', value);
}

/** Returns the value. Throws what `map` returns for an error. */
export async function mapError<T>(value: Promise<T>, map: (error: unknown) => unknown): Promise<T> {
  try {
    return await value;
  } catch (error) {
    throw await map(error);
  }
}

/** The `code` of an operating system error such as ENOENT; undefined for anything else. */
export function systemErrorCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

const MAX_DESCRIPTION_LENGTH = 1_000;

/** Describes any error for people: one line, without a stack, and without the secrets of an address. */
export function describeError(error: unknown): string {
  const text = cutText(error instanceof Error ? error.message : String(error), MAX_DESCRIPTION_LENGTH);
  const line = maskAddresses(text.split('\n', 1)[0] ?? '');
  return line === '' ? 'unknown error' : line;
}
