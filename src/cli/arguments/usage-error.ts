import { nearest } from '../../system/nearest.ts';
import { commandTable } from '../commands/command-table.ts';
import { optionTable, usageLine } from './command.ts';
import type { Command, OptionName, UsageError } from './command.ts';

/** Returns a usage error with the usage line as advice. `meant` is the most similar command. */
export function usageError(message: string, command?: Command, meant?: string): UsageError {
  const how = command === undefined ? 'all commands: agent --help' : `usage: ${usageLine(command)}`;
  return { kind: 'usage-error', message, advice: meant === undefined ? how : `did you mean ${meant}? ${how}` };
}

export function unknownOption(rawName: string): UsageError {
  const meant = nearest(rawName, Object.keys(optionTable));
  return usageError(`unknown option ${rawName}`, undefined, meant === undefined ? undefined : `--${meant}`);
}

/** Returns the error of an option that belongs to other commands. */
export function misplacedOption(name: OptionName, command: Command | undefined): UsageError {
  const owners = commandTable.filter(({ options }) => options.includes(name)).map((owner) => owner.name);
  return usageError(`--${name} is an option of ${owners.join(', ')}`, command);
}

/** The commands for words that readers of older documentation, or of other tools, try. */
const commandsByOtherWord: ReadonlyMap<string, string> = new Map([
  ['report', 'support-bundle'],
  ['boards', 'mcu list'],
  ['forget', 'unblock'],
  ['page', 'web'],
  ['spool', 'queue status'],
]);

/** Commands that interrupt the gateway, and are never suggested for a similar word. */
const disruptive: ReadonlySet<string> = new Set(['reboot', 'rollback', 'commit']);

export function unknownCommand(words: readonly string[]): UsageError {
  const [first = '', second] = words;
  const names = commandTable.map(({ name }) => name).filter((name) => !disruptive.has(name));
  const group = names.filter((name) => name.startsWith(`${first} `));
  if (group.length > 0) return unknownInGroup(first, second, group);
  const meant = commandsByOtherWord.get(first) ?? nearest(words.slice(0, 2).join(' '), names) ?? nearest(first, names);
  return usageError(`unknown command "${first}"`, undefined, meant);
}

/** Returns the error of a group without a subcommand (`config`), or with an unknown one (`config chek`). */
function unknownInGroup(first: string, second: string | undefined, group: readonly string[]): UsageError {
  const expected = alternatives(group.map((name) => name.slice(first.length + 1)));
  if (second === undefined) return usageError(`missing subcommand for "${first}": expected ${expected}`);
  const meant = nearest(`${first} ${second}`, group);
  return usageError(`unknown command "${first} ${second}": expected ${first} ${expected}`, undefined, meant);
}

/** Returns `a`, `a or b`, or `a, b or c`. */
function alternatives(words: readonly string[]): string {
  const others = words.slice(0, -1);
  return [others.join(', '), words.at(-1) ?? ''].filter((text) => text !== '').join(' or ');
}
