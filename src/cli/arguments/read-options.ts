import { parseArgs } from 'node:util';

import { optionTable } from './command.ts';
import type { OptionName, UsageError } from './command.ts';
import { unknownOption, usageError } from './usage-error.ts';

export interface TypedArguments {
  readonly kind: 'typed';
  /** The arguments that are not options, in their order. */
  readonly words: readonly string[];
  readonly flags: ReadonlySet<OptionName>;
  readonly values: ReadonlyMap<OptionName, string>;
}

const parseOptions = Object.fromEntries(
  Object.entries(optionTable).map(([name, { value }]) => [
    name,
    { type: value === undefined ? ('boolean' as const) : ('string' as const), ...(name === 'help' && { short: 'h' }) },
  ]),
);

/** Separates options, which may be anywhere, from words. A negative number is a word. */
export function readOptions(args: readonly string[]): TypedArguments | UsageError {
  const { tokens } = parseArgs({
    args: args.map(protectNegativeNumber),
    options: parseOptions,
    strict: false,
    tokens: true,
  });
  const words: string[] = [];
  const flags = new Set<OptionName>();
  const values = new Map<OptionName, string>();
  for (const token of tokens) {
    if (token.kind === 'positional') words.push(args[token.index] ?? '');
    if (token.kind !== 'option') continue;
    if (!isOption(token.name)) return unknownOption(token.rawName);
    if (optionTable[token.name].value === undefined) {
      if (token.value !== undefined) return usageError(`${token.rawName} does not take a value`);
      flags.add(token.name);
      continue;
    }
    const value = token.inlineValue === true ? token.value : nextWord(args, token.index);
    if (value === undefined || value === '') return usageError(`${token.rawName} needs a value`);
    values.set(token.name, value);
  }
  return { kind: 'typed', words, flags, values };
}

/** Returns the argument that follows an option, unless it is an option itself. */
function nextWord(args: readonly string[], index: number): string | undefined {
  const next = args[index + 1];
  return next === undefined || next.startsWith('--') ? undefined : next;
}

/** A space before a negative number keeps parseArgs from reading it as options. */
function protectNegativeNumber(argument: string): string {
  return /^-\.?\d/.test(argument) ? ` ${argument}` : argument;
}

function isOption(name: string): name is OptionName {
  return Object.hasOwn(optionTable, name);
}
