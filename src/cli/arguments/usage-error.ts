import { nearest } from '../../system/nearest.ts';
import { commandTable } from '../commands/command-table.ts';
import { optionTable, usageLine } from './command.ts';
import type { Command, OptionName, UsageError } from './command.ts';

/** A usage error: what is wrong, and how the command is written. `meant` is the most similar command. */
export function usageError(message: string, command?: Command, meant?: string): UsageError {
  const how = command === undefined ? 'all commands: agent --help' : `usage: ${usageLine(command)}`;
  return { kind: 'usage-error', message, advice: meant === undefined ? how : `did you mean ${meant}? ${how}` };
}

export function unknownOption(rawName: string): UsageError {
  const meant = nearest(rawName, Object.keys(optionTable));
  return usageError(`there is no option ${rawName}`, undefined, meant === undefined ? undefined : `--${meant}`);
}

/** The option exists, but belongs to other commands. */
export function misplacedOption(name: OptionName, command: Command | undefined): UsageError {
  const owners = commandTable.filter(({ options }) => options.includes(name)).map((owner) => owner.name);
  return usageError(`--${name} goes with ${owners.join(', ')}`, command);
}

export function unknownCommand(words: readonly string[]): UsageError {
  const [first = '', second] = words;
  const names = commandTable.map(({ name }) => name);
  const group = names.filter((name) => name.startsWith(`${first} `));
  if (group.length > 0) return unknownInGroup(first, second, group);
  const meant = nearest(words.slice(0, 2).join(' '), names) ?? nearest(first, names);
  return usageError(`there is no command ${first}`, undefined, meant);
}

/** A group without its second word (`config`), or with an unknown one (`config chek`). */
function unknownInGroup(first: string, second: string | undefined, group: readonly string[]): UsageError {
  if (second === undefined) return usageError(`${first} is one word short: ${group.join(', ')}`);
  const meant = nearest(`${first} ${second}`, group);
  return usageError(`there is no command ${first} ${second}, but ${group.join(', ')}`, undefined, meant);
}
