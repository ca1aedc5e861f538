import process from 'node:process';
import { parseArgs } from 'node:util';
import type { ParseArgsConfig } from 'node:util';

type Options = NonNullable<ParseArgsConfig['options']>;
type Values<T extends Options> = ReturnType<typeof parseArgs<{ options: T }>>['values'];

/** EX_USAGE of sysexits(3). */
const WRONG_USE = 64;

/** A developer's tool was called with wrong arguments. The message is one line. */
export class WrongUse extends Error {
  override readonly name = 'WrongUse';
}

/** Runs a tool for developers on its options; `--help` and a wrong call are dealt with here. `main` gives the exit code. */
export async function runTool<const T extends Options>(
  help: string,
  options: T,
  main: (values: Values<T>) => Promise<number>,
): Promise<void> {
  try {
    if (process.argv.includes('--help')) {
      console.log(help);
      return;
    }
    process.exitCode = await main(readOptions(options));
  } catch (error) {
    if (!(error instanceof WrongUse)) throw error;
    console.error(`${error.message}\n(--help explains the options)`);
    process.exitCode = WRONG_USE;
  }
}

function readOptions<T extends Options>(options: T): Values<T> {
  try {
    return parseArgs({ options }).values;
  } catch (error) {
    const isOfParseArgs = error instanceof Error && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS');
    throw isOfParseArgs ? new WrongUse(error.message, { cause: error }) : error;
  }
}

/** The value of an option that is a number. */
export function numberOption(name: string, text: string, least: number): number {
  const value = text.trim() === '' ? Number.NaN : Number(text);
  if (Number.isFinite(value) && value >= least) return value;
  throw new WrongUse(`--${name} is a number of at least ${least}, not ${JSON.stringify(text)}`);
}

/** The value of an option that is a whole number. */
export function countOption(name: string, text: string, least: number): number {
  const value = numberOption(name, text, least);
  if (Number.isSafeInteger(value)) return value;
  throw new WrongUse(`--${name} is a whole number, not ${text}`);
}
