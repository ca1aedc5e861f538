import fc from 'fast-check';

import { AgentError } from '../../../src/system/errors.ts';

/** One place where something comes from outside. */
export interface FuzzTarget {
  readonly name: string;
  /** No case may take longer. Default: 5 s. */
  readonly maxCaseMs?: number;
  /** The process of the target never has more. Default: 512 MiB, most of which is the fuzzer's own. */
  readonly maxRssMiB?: number;
  open(): Promise<OpenTarget>;
}

export interface OpenTarget extends AsyncDisposable {
  readonly check: (parameters: fc.Parameters<unknown>, onCase: () => Promise<void>) => Promise<fc.RunDetails<unknown>>;
}

/** The type of an arbitrary's values. */
export type CaseOf<A> = A extends fc.Arbitrary<infer T> ? T : never;

/** `check` throws where the case did something that no input may do. */
export function openTarget<T>(
  cases: fc.Arbitrary<T>,
  check: (input: T) => Promise<void> | void,
  dispose: () => Promise<void> = async () => {},
): OpenTarget {
  /** When its time is over, fast-check leaves the case in which it is: the next one, and `dispose`, wait for that one. */
  let last: Promise<void> = Promise.resolve();
  return {
    check: async (parameters, onCase) => {
      const run = async (input: T): Promise<void> => {
        await onCase();
        await check(input);
      };
      const property = fc.asyncProperty(cases, async (input) => {
        const former = last;
        last = Promise.allSettled([former]).then(async () => run(input));
        await last;
      });
      return (await fc.check(property, parameters as fc.Parameters<[T]>)) as fc.RunDetails<unknown>;
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.allSettled([last]);
      await dispose();
    },
  };
}

/** Returns how it ended. Rethrows anything but an AgentError with a readable message. */
export async function outcomeOf<T>(
  action: () => T | Promise<T>,
): Promise<{ readonly value: T } | { readonly error: AgentError }> {
  try {
    return { value: await action() };
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    requireReadable(error);
    return { error };
  }
}

const MOST_CHARACTERS = 2000;

/** One line, without control characters, and no stack. */
export function requireReadable({ message, code, advice = '' }: AgentError): void {
  const text = `${message} ${advice}`;
  if (/\n\s*at .*:\d+/.test(text)) throw new Error(`a person would see a stack trace: ${text}`);
  if (text.length > MOST_CHARACTERS) throw new Error(`the message of ${code} has ${text.length} characters`);
}
