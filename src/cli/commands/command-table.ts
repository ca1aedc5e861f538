import type { InstallOptions } from '../../control/operations.ts';
import type { Command } from './command.ts';
import { valueCommands } from './value-commands.ts';

/** Every option of the command line; `value` names what follows it. */
export const optionTable = {
  config: { value: 'FILE', summary: 'instead of /etc/thing-agent/config.toml' },
  json: { value: undefined, summary: 'answer in JSON, for programs' },
  help: { value: undefined, summary: 'show this' },
  version: { value: undefined, summary: 'show the version of the agent' },
  'update-now': { value: undefined, summary: 'check, install and report now' },
  'no-reboot': { value: undefined, summary: 'stop before the reboot and say that it is needed' },
  plan: { value: undefined, summary: 'only say how much would change' },
  force: { value: undefined, summary: 'for this order, quarantine and maintenance window do not count' },
  'allow-downgrade': {
    value: undefined,
    summary: 'an older release, this once (root, no daemon)',
  },
  text: { value: undefined, summary: 'VALUE is a text, even where it reads as JSON' },
  at: { value: 'TIME', summary: 'when it was measured (default: now)' },
} as const;

export type OptionName = keyof typeof optionTable;

/** These go with every command. */
export const commonOptions: readonly OptionName[] = ['config', 'json', 'help'];

export interface CommandEntry {
  /** What a person types, e.g. `config check`. */
  readonly name: string;
  /** What follows, in order; all are needed. */
  readonly operands: readonly string[];
  /** Beside the common ones. */
  readonly options: readonly OptionName[];
  readonly group: CommandGroup;
  readonly summary: string;
  /** Paragraphs of `--help`. */
  readonly details: readonly string[];
  /** A text says what is wrong. */
  readonly build: (input: CommandInput) => Command | string;
}

export type CommandGroup = 'Update' | 'Look' | 'Microcontrollers' | 'Service' | 'Configuration' | 'Daemon';

/** As many operands as the entry names. */
export interface CommandInput {
  readonly operands: readonly string[];
  readonly flags: ReadonlySet<OptionName>;
  readonly values: ReadonlyMap<OptionName, string>;
}

const throughDaemon = 'The running daemon does it; without one, this program does it by itself.';

export const commandTable: readonly CommandEntry[] = [
  {
    name: '--update-now',
    operands: [],
    options: ['no-reboot', 'force'],
    group: 'Update',
    summary: 'check, install and report now',
    details: [
      'Asks the service which version this gateway should run, installs it, and reboots into it where that is needed.',
      `${throughDaemon} If an update is under way already, its progress is shown. Ctrl-C leaves a daemon's update running.`,
    ],
    build: ({ flags }) => ({ kind: 'operation', operation: { name: 'update-now', options: installOptions(flags) } }),
  },
  {
    name: 'check',
    operands: [],
    options: [],
    group: 'Update',
    summary: 'what an update would do; changes nothing',
    details: [throughDaemon],
    build: () => ({ kind: 'report', report: 'check' }),
  },
  {
    name: 'install',
    operands: ['FILE'],
    options: ['no-reboot', 'force', 'allow-downgrade'],
    group: 'Update',
    summary: 'install a file, under the same rules',
    details: ['FILE is an artifact or an image itself, not encoded, as on a USB stick.', throughDaemon],
    build: buildInstall,
  },
  {
    name: 'commit',
    operands: [],
    options: [],
    group: 'Update',
    summary: 'keep the firmware on trial without waiting',
    details: [
      'The health gate is not waited for, and a daemon that waits for it gives way; microcontrollers of the update are flashed first.',
      throughDaemon,
    ],
    build: () => ({ kind: 'operation', operation: { name: 'commit' } }),
  },
  {
    name: 'rollback',
    operands: [],
    options: ['no-reboot', 'force'],
    group: 'Update',
    summary: 'end a trial, or go back to what was before',
    details: [
      'Microcontrollers go back with the gateway. Where one cannot, --force takes the gateway back without it.',
      throughDaemon,
    ],
    build: ({ flags }) => ({ kind: 'operation', operation: { name: 'rollback', options: installOptions(flags) } }),
  },
  {
    name: 'cancel',
    operands: [],
    options: [],
    group: 'Update',
    summary: 'end a download, or a wait for a reboot',
    details: [
      'What was being downloaded is not begun again by itself: agent --update-now does that. A trial that runs already is ended by agent rollback, or kept by agent commit.',
      'Through the daemon, if one runs. A download in another terminal is ended there, with Ctrl-C.',
    ],
    build: () => ({ kind: 'operation', operation: { name: 'cancel' } }),
  },
  {
    name: 'reboot',
    operands: [],
    options: [],
    group: 'Update',
    summary: 'reboot, into the staged firmware if any',
    details: [
      'A trial that is being judged is judged after the boot, if it runs then. Refused while a firmware is staged.',
    ],
    build: () => ({ kind: 'request', request: { name: 'reboot' } }),
  },
  {
    name: 'forget',
    operands: ['VERSION'],
    options: [],
    group: 'Update',
    summary: 'let a version be tried again that ended badly',
    details: [
      'VERSION is a name, an id, or the begin of a digest, as agent status lists it under Quarantine.',
      'Nothing is installed by this: the next look may do it, or agent --update-now.',
      throughDaemon,
    ],
    build: ({ operands: [version = ''] }) => ({ kind: 'request', request: { name: 'forget', version } }),
  },
  {
    name: 'status',
    operands: [],
    options: [],
    group: 'Look',
    summary: 'what is installed, what goes on, what comes next',
    details: [],
    build: () => ({ kind: 'report', report: 'status' }),
  },
  {
    name: 'doctor',
    operands: [],
    options: [],
    group: 'Look',
    summary: 'test everything that an update needs',
    details: ['Changes nothing. Ends with 70 if a test failed.'],
    build: () => ({ kind: 'report', report: 'doctor' }),
  },
  {
    name: 'mcu list',
    operands: [],
    options: [],
    group: 'Microcontrollers',
    summary: 'the configured ones, and what was flashed last',
    details: ['Does not talk to them: mcu probe does.'],
    build: () => ({ kind: 'request', request: { name: 'mcu-list' } }),
  },
  {
    name: 'mcu probe',
    operands: ['NAME'],
    options: [],
    group: 'Microcontrollers',
    summary: 'ask the bootloader who it is',
    details: ['The application is started again.', throughDaemon],
    build: ({ operands: [board = ''] }) => ({ kind: 'request', request: { name: 'mcu-probe', board } }),
  },
  {
    name: 'mcu flash',
    operands: ['NAME', 'FILE'],
    options: ['plan'],
    group: 'Microcontrollers',
    summary: 'flash a file; --plan only compares',
    details: [
      'FILE is Intel HEX, S-record, ELF, UF2, an image for MCUboot, or a raw binary.',
      'What the board held is kept; a file without a signature needs allow_unsigned.',
      throughDaemon,
    ],
    build: buildMcuFlash,
  },
  {
    name: 'mcu restore',
    operands: ['NAME'],
    options: [],
    group: 'Microcontrollers',
    summary: 'put back what it held before',
    details: [throughDaemon],
    build: ({ operands: [board = ''] }) => ({ kind: 'operation', operation: { name: 'mcu-restore', board } }),
  },
  {
    name: 'mcu reset',
    operands: ['NAME'],
    options: [],
    group: 'Microcontrollers',
    summary: 'restart its application',
    details: [throughDaemon],
    build: ({ operands: [board = ''] }) => ({ kind: 'request', request: { name: 'mcu-reset', board } }),
  },
  {
    name: 'activate',
    operands: [],
    options: [],
    group: 'Service',
    summary: 'introduce this gateway to the service',
    details: ['A new key replaces the old one.', throughDaemon],
    build: () => ({ kind: 'request', request: { name: 'activate' } }),
  },
  ...valueCommands,
  {
    name: 'explain',
    operands: ['CODE'],
    options: [],
    group: 'Look',
    summary: 'what an error code means, and what to do',
    details: ['Asks nobody: it works without a daemon, a configuration and a network.'],
    build: ({ operands: [code = ''] }) => ({ kind: 'explain', code }),
  },
  {
    name: 'config check',
    operands: [],
    options: [],
    group: 'Configuration',
    summary: 'what is wrong with the configuration',
    details: ['Names every line that is wrong. Ends with 78 if there is one.'],
    build: () => ({ kind: 'config', what: 'check' }),
  },
  {
    name: 'config show',
    operands: [],
    options: [],
    group: 'Configuration',
    summary: 'the configuration with its defaults',
    details: ['Secrets are hidden.'],
    build: () => ({ kind: 'config', what: 'show' }),
  },
  {
    name: 'config schema',
    operands: [],
    options: [],
    group: 'Configuration',
    summary: 'the JSON Schema of the configuration',
    details: [],
    build: () => ({ kind: 'config', what: 'schema' }),
  },
  {
    name: 'run',
    operands: [],
    options: [],
    group: 'Daemon',
    summary: 'be the daemon; systemd starts this',
    details: ['SIGHUP reads the configuration again, SIGTERM stops in order. The log goes to stderr.'],
    build: () => ({ kind: 'run' }),
  },
];

/** The line that follows `usage:`. */
export function usageLine(entry: CommandEntry | undefined): string {
  if (entry === undefined) return 'agent [--config FILE] [COMMAND]';
  const options = [...entry.options, ...commonOptions.filter((name) => name !== 'help')].map((name) => {
    const { value } = optionTable[name];
    return value === undefined ? `[--${name}]` : `[--${name} ${value}]`;
  });
  return ['agent', entry.name, ...entry.operands, ...options].join(' ');
}

function installOptions(flags: CommandInput['flags']): InstallOptions {
  const options = { reboot: !flags.has('no-reboot'), force: flags.has('force') };
  return flags.has('allow-downgrade') ? { ...options, allowDowngrade: true } : options;
}

function buildInstall({ operands: [path = ''], flags }: CommandInput): Command {
  return { kind: 'operation', operation: { name: 'install', path, options: installOptions(flags) } };
}

function buildMcuFlash({ operands: [board = '', path = ''], flags }: CommandInput): Command {
  if (flags.has('plan')) return { kind: 'request', request: { name: 'mcu-plan', board, path } };
  return { kind: 'operation', operation: { name: 'mcu-flash', board, path } };
}
