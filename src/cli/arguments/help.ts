import { commandTable } from '../commands/command-table.ts';
import { wrap } from '../screen/layout.ts';
import { commandGroups, commonOptions, generalOptions, optionTable, usageLine } from './command.ts';
import type { Command, OptionName } from './command.ts';

const pageColumns = 78;

/** Returns the text of `agent --help`, or the help of one command or of a group of commands. */
export function helpText(command: Command | undefined, group?: readonly Command[]): string {
  if (command !== undefined) return commandHelp(command);
  return group === undefined ? generalHelp() : groupHelp(group);
}

/** Returns the help of commands with the same first word, or under the same heading. */
function groupHelp(group: readonly Command[]): string {
  const first = group[0]?.name.split(' ')[0] ?? '';
  const word = group.every(({ name }) => name.startsWith(`${first} `)) ? `${first} ` : '';
  const title = group[0]?.group ?? '';
  return [
    `usage: agent ${word}COMMAND\n`,
    section(title, pairsOf(group), 28),
    paragraph(`agent help ${word}COMMAND describes one command.`),
  ].join('\n');
}

function pairsOf(commands: readonly Command[]): readonly (readonly [string, string])[] {
  return commands.map(({ name, operands, summary }) => [[name, ...operands].join(' '), summary] as const);
}

function generalHelp(): string {
  const width = 28;
  const sections = commandGroups.map((group) => {
    const commands = commandTable.filter((command) => command.group === group);
    return section(group, pairsOf(commands), width);
  });
  return [
    `usage: ${usageLine(undefined)}\n`,
    'Keeps this gateway on the firmware version that the service assigns.\n',
    ...sections,
    section('Options', optionPairs(generalOptions), width),
    paragraph(
      'For help on one command, run agent help COMMAND or agent COMMAND --help. Without --config, the environment ' +
        'variable THING_AGENT_CONFIG names the configuration file.',
    ),
    paragraph(
      'Results go to stdout, progress and errors to stderr. Exit codes: 0 done or nothing to do, 1 or 2 see status and doctor, 64 usage, ' +
        '69 service unreachable, 70 failed, 74 disk or device, 75 try again later, 76 protocol ' +
        'error, 77 refused, 78 configuration, 130 interrupted.',
    ),
  ].join('\n');
}

function commandHelp(command: Command): string {
  return [
    `${wrap(`usage: ${usageLine(command)}`, pageColumns - 7).join('\n       ')}\n`,
    paragraph(`${command.summary.charAt(0).toUpperCase()}${command.summary.slice(1)}.`),
    ...command.details.map(paragraph),
    section('Options', optionPairs([...command.options, ...commonOptions], command)),
  ].join('\n');
}

function paragraph(text: string): string {
  return `${wrap(text, pageColumns).join('\n')}\n`;
}

function optionPairs(names: readonly OptionName[], command?: Command): readonly (readonly [string, string])[] {
  return names.map((option) => {
    const { name, value, summary } = optionValue(option, command);
    return [value === undefined ? name : `${name} ${value}`, summary];
  });
}

function section(title: string, pairs: readonly (readonly [string, string])[], least = 16): string {
  const width = Math.max(least, ...pairs.map(([left]) => left.length + 2));
  const lines = pairs.map(([left, right]) => {
    const indent = `\n${' '.repeat(width + 2)}`;
    return `  ${left.padEnd(width)}${wrap(right, pageColumns - width).join(indent)}`;
  });
  return `${title}\n${lines.join('\n')}\n`;
}

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

function optionValue(name: OptionName, { meanings, needed = [] }: Pick<Command, 'meanings' | 'needed'> = {}) {
  const { value, summary } = optionTable[name];
  return { name: `--${name}`, value, summary: meanings?.[name] ?? summary, needed: needed.includes(name) };
}
