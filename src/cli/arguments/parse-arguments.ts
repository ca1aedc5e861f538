import { commandTable } from '../commands/command-table.ts';
import { commonOptions } from './command.ts';
import type { Command, OptionName, ParsedArguments, UsageError, Invocation } from './command.ts';
import { readOptions, type TypedArguments } from './read-options.ts';
import { misplacedOption, unknownCommand, usageError } from './usage-error.ts';

/** Parses the arguments into a command. Never throws: invalid arguments yield a `usage-error`. */
export function parseArguments(args: readonly string[]): ParsedArguments {
  const typed = readOptions(args);
  if (typed.kind === 'usage-error') return { configFile: undefined, json: args.includes('--json'), wanted: typed };
  const { flags, values } = typed;
  return { configFile: values.get('config'), json: flags.has('json'), wanted: parseInvocation(typed) };
}

function parseInvocation(typed: TypedArguments): Invocation {
  const { flags } = typed;
  if (flags.has('version')) return { kind: 'version' };
  const [first] = typed.words;
  if (flags.has('update-now') && first === 'help') return helpFor(['--update-now']);
  const words = flags.has('update-now') ? ['--update-now', ...typed.words] : typed.words;
  const command = commandOf(words);
  if (words[0] === 'help' && command === undefined) return helpFor(words.slice(1));
  if (flags.has('help')) return helpFor(words);
  if (command !== undefined) return fill(command, words.slice(command.name.split(' ').length), typed);
  return words.length === 0 ? withoutCommand(typed) : unknownCommand(words);
}

function commandOf(words: readonly string[]): Command | undefined {
  return commandTable.find(({ name }) => name.split(' ').every((word, index) => word === words[index]));
}

/** Returns help for a command, for a group such as `mcu`, or the general help. */
function helpFor(words: readonly string[]): Invocation {
  const [first, second] = words;
  const command = commandOf(words) ?? commandOf(words.map((word) => word.replace(/^update-now$/, '--update-now')));
  if (command !== undefined || first === undefined) return { kind: 'help', command };
  if (first === 'help') return helpFor(words.slice(1));
  const beginners = commandTable.filter(({ name }) => name.startsWith(`${first} `));
  const group =
    beginners.length > 0 ? beginners : commandTable.filter((one) => one.group.toLowerCase() === first.toLowerCase());
  if (group.length === 0 || second !== undefined) return unknownCommand(words);
  return { kind: 'help', command: undefined, group };
}

function withoutCommand(typed: TypedArguments): Invocation {
  const stray = findMisplacedOption(typed, []);
  if (stray !== undefined) return misplacedOption(stray, undefined);
  if (typed.values.has('config')) return usageError('--config needs a command, such as status');
  return { kind: 'help', command: undefined };
}

function fill(command: Command, operands: readonly string[], typed: TypedArguments): Invocation {
  const stray = findMisplacedOption(typed, command.options);
  if (stray !== undefined) return misplacedOption(stray, command);
  const { flags, values } = typed;
  const whole = { operands, flags, values, json: flags.has('json') };
  return findArgumentMismatch(command, operands) ?? { kind: 'command', command, typed: whole };
}

function findMisplacedOption({ flags, values }: TypedArguments, own: readonly OptionName[]): OptionName | undefined {
  const known = new Set<OptionName>([...own, ...commonOptions, 'update-now']);
  return [...flags, ...values.keys()].find((name) => !known.has(name));
}

function findArgumentMismatch(command: Command, operands: readonly string[]): UsageError | undefined {
  const missing = command.operands[operands.length];
  if (missing !== undefined && !missing.startsWith('['))
    return usageError(`${command.name}: missing operand ${missing}`, command);
  const surplus = operands[command.operands.length];
  if (surplus !== undefined) return usageError(`${command.name}: unexpected operand "${surplus}"`, command);
  const [first] = operands;
  return first === '' ? usageError(`${command.name}: ${command.operands[0] ?? ''} is empty`, command) : undefined;
}
