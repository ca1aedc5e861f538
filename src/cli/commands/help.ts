import { wrap } from '../screen/layout.ts';
import {
  commandTable,
  commonOptions,
  optionTable,
  usageLine,
  type CommandEntry,
  type OptionName,
} from './command-table.ts';

const pageColumns = 78;

const groups = ['Update', 'Look', 'Microcontrollers', 'Service', 'Configuration', 'Daemon'] as const;

/** `agent --help`, or the help of one command. */
export function helpText(entry: CommandEntry | undefined): string {
  return entry === undefined ? generalHelp() : commandHelp(entry);
}

function generalHelp(): string {
  const width = 28;
  const sections = groups.map((group) => {
    const entries = commandTable.filter((entry) => entry.group === group);
    const pairs = entries.map(({ name, operands, summary }) => [[name, ...operands].join(' '), summary] as const);
    return section(group, pairs, width);
  });
  return [
    `usage: ${usageLine(undefined)}\n`,
    'Keeps this gateway on the firmware that its service names.\n',
    ...sections,
    section('Options', optionPairs([...commonOptions, 'version']), width),
    paragraph(
      'Results go to stdout, progress and errors to stderr. Exit codes: 0 done or nothing to do, 64 usage, ' +
        '69 service unreachable, 70 failed, 74 disk or device, 75 try again later, 76 the other side broke the ' +
        'protocol, 77 refused, 78 configuration, 130 interrupted.',
    ),
  ].join('\n');
}

function commandHelp(entry: CommandEntry): string {
  return [
    `${wrap(`usage: ${usageLine(entry)}`, pageColumns - 7).join('\n       ')}\n`,
    paragraph(`${entry.summary.charAt(0).toUpperCase()}${entry.summary.slice(1)}.`),
    ...entry.details.map(paragraph),
    section('Options', optionPairs([...entry.options, ...commonOptions])),
  ].join('\n');
}

function paragraph(text: string): string {
  return `${wrap(text, pageColumns).join('\n')}\n`;
}

function optionPairs(names: readonly OptionName[]): readonly (readonly [string, string])[] {
  return names.map((name) => {
    const { value, summary } = optionTable[name];
    return [`--${name}${value === undefined ? '' : ` ${value}`}`, summary];
  });
}

function section(title: string, pairs: readonly (readonly [string, string])[], width = 16): string {
  const lines = pairs.map(([left, right]) => `  ${left.padEnd(width)}${right}`);
  return `${title}\n${lines.join('\n')}\n`;
}
