import { commandTable, commonOptions, type CommandEntry, type OptionName } from './command-table.ts';
import type { Command, ParsedCommand, UsageError } from './command.ts';
import { readOptions, type TypedArguments } from './read-options.ts';
import { strayOption, unknownCommand, usageError } from './usage-error.ts';

/** From the arguments to a command. Never throws: what is wrong is a command too. */
export function parseArguments(args: readonly string[]): ParsedCommand {
  const typed = readOptions(args);
  if (typed.kind === 'usage-error') return { configFile: undefined, json: args.includes('--json'), command: typed };
  return { configFile: typed.values.get('config'), json: typed.flags.has('json'), command: toCommand(typed) };
}

function toCommand(typed: TypedArguments): Command {
  const { flags } = typed;
  if (flags.has('version')) return { kind: 'version' };
  const words = flags.has('update-now') ? ['--update-now', ...typed.words] : typed.words;
  const entry = commandTable.find(({ name }) => name.split(' ').every((word, index) => word === words[index]));
  if (flags.has('help')) return { kind: 'help', entry };
  if (entry !== undefined) return fill(entry, words.slice(entry.name.split(' ').length), typed);
  return words.length === 0 ? withoutCommand(typed) : unknownCommand(words);
}

function withoutCommand(typed: TypedArguments): Command {
  const stray = strayAmong(typed, []);
  return stray === undefined ? { kind: 'help', entry: undefined } : strayOption(stray, undefined);
}

function fill(entry: CommandEntry, operands: readonly string[], typed: TypedArguments): Command {
  const stray = strayAmong(typed, entry.options);
  if (stray !== undefined) return strayOption(stray, entry);
  const wrong = misfit(entry, operands);
  if (wrong !== undefined) return wrong;
  const command = entry.build({ operands, flags: typed.flags, values: typed.values });
  return typeof command === 'string' ? usageError(`${entry.name}: ${command}`, entry) : command;
}

function strayAmong({ flags, values }: TypedArguments, own: readonly OptionName[]): OptionName | undefined {
  const known = new Set<OptionName>([...own, ...commonOptions, 'update-now']);
  return [...flags, ...values.keys()].find((name) => !known.has(name));
}

function misfit(entry: CommandEntry, operands: readonly string[]): UsageError | undefined {
  const missing = entry.operands[operands.length];
  if (missing !== undefined) return usageError(`${entry.name}: ${missing} is missing`, entry);
  const surplus = operands[entry.operands.length];
  if (surplus !== undefined) return usageError(`${entry.name}: ${surplus} is one word too many`, entry);
  const [first] = operands;
  return first === '' ? usageError(`${entry.name}: ${entry.operands[0] ?? ''} is empty`, entry) : undefined;
}
