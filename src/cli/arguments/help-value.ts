import { commandTable } from '../commands/command-table.ts';
import { commonOptions, optionTable, usageLine } from './command.ts';
import type { Command, OptionName } from './command.ts';

/** Returns the content of `--help` as JSON, for programs. */
export function helpValue(command: Command | undefined, group: readonly Command[] = commandTable): object {
  if (command !== undefined) return commandValue(command);
  return { usage: usageLine(undefined), commands: group.map((one) => commandValue(one)) };
}

function commandValue(command: Command): object {
  const { name, operands, group, summary, details } = command;
  const options = [...command.options, ...commonOptions].map((option) => optionValue(option, command));
  return { name, usage: usageLine(command), group, summary, details, operands, options };
}

function optionValue(name: OptionName, { meanings, needed = [] }: Command): object {
  const { value, summary } = optionTable[name];
  return { name: `--${name}`, value, summary: meanings?.[name] ?? summary, needed: needed.includes(name) };
}
