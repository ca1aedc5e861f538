import { commandGroups, generalOptions, optionTable, usageLine } from '../../src/cli/arguments/command.ts';
import type { Command, OptionName } from '../../src/cli/arguments/command.ts';
import { commandTable } from '../../src/cli/commands/command-table.ts';
import { socketNames } from '../../src/control/access.ts';
import { exitCodes } from '../../src/system/errors.ts';
import { entry, line, pageHead, paragraph, section, subsection } from './roff.ts';
import type { PageHead } from './roff.ts';

const exitMeanings: Readonly<Record<keyof typeof exitCodes, string>> = {
  done: 'done, or nothing to do',
  usage: 'the command line is invalid',
  unreachable: 'the service or the broker is unreachable',
  failed: 'failed',
  disk: 'a disk or a device failed',
  tryAgain: 'try again later',
  protocol: 'the peer broke the protocol',
  refused: 'refused: not verified, not permitted, or deferred',
  configuration: 'the configuration is invalid',
};

const files: Readonly<Record<string, string>> = {
  '/etc/thing-agent/config.toml': 'The configuration: thing-agent.toml(5).',
  '/var/lib/thing-agent': 'Identity, journal of updates, queue of measurements. Both slots mount it.',
  '/run/thing-agent': `Sockets: ${socketNames.members} for members of thing-agent, ${socketNames.operators} for members of thing-operators, ${socketNames.root} for root.`,
  '/usr/share/doc/thing-agent':
    'Pages: README.md lists them, such as operations.md, troubleshooting.md (from a symptom to the next command) and error-codes.md; the bill of materials.',
};

/** agent(8), from the table of commands. */
export function agentPage(head: Omit<PageHead, 'name' | 'manual'>): string {
  return [
    pageHead({ ...head, name: 'AGENT', manual: 8 }),
    section('Name', line('agent - keeps this gateway on the firmware version that the service assigns')),
    section('Synopsis', line(usageLine(undefined))),
    section(
      'Description',
      line('Queries and controls the running daemon. Without a daemon, it does the same work itself.'),
      paragraph('Results go to stdout, progress and errors to stderr.'),
    ),
    section('Commands'),
    ...commandGroups.map((group) =>
      subsection(group, ...commandTable.filter((command) => command.group === group).map(commandEntry)),
    ),
    section('Options', ...generalOptions.map(optionEntry)),
    section(
      'Exit status',
      ...Object.entries(exitMeanings).map(([kind, meaning]) => exitEntry(kind, meaning)),
      entry('130', 'interrupted by Ctrl-C; 143: by SIGTERM'),
      paragraph('agent status --exit-code: 0 ok, busy or on trial, 1 waits or needs attention, 2 broken.'),
    ),
    section('Files', ...Object.entries(files).map(([file, meaning]) => entry(file, meaning))),
    section('See also', line('thing-agent.toml(5), systemctl(1), journalctl(1), mender-artifact(1)')),
  ].join('');
}

function commandEntry(command: Command): string {
  const { name, operands, summary, details, options, meanings } = command;
  const title = ['agent', name, ...operands].join(' ');
  const own = options.map((option) => `${optionTerm(option)}: ${meanings?.[option] ?? optionTable[option].summary}.`);
  return entry(title, `${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`, ...details, ...own);
}

function optionEntry(name: OptionName): string {
  return entry(optionTerm(name), `${optionTable[name].summary}.`);
}

function optionTerm(name: OptionName): string {
  const { value } = optionTable[name];
  return value === undefined ? `--${name}` : `--${name} ${value}`;
}

function exitEntry(kind: string, meaning: string): string {
  const code = Object.entries(exitCodes).find(([name]) => name === kind)?.[1];
  return entry(String(code), meaning);
}
