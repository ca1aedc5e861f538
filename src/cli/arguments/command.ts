import type { CliContext } from '../context.ts';

/** Every option of the command line; `value` names the operand that follows the option. */
export const optionTable = {
  config: { value: 'FILE', summary: 'read FILE instead of /etc/thing-agent/config.toml' },
  json: { value: undefined, summary: 'print JSON, for programs' },
  help: { value: undefined, summary: 'show help' },
  version: { value: undefined, summary: 'show the version of the agent' },
  'update-now': { value: undefined, summary: 'check for an update and install it now' },
  'no-reboot': { value: undefined, summary: 'stop before the reboot and report that it is needed' },
  plan: { value: undefined, summary: 'only report how much would change' },
  force: {
    value: undefined,
    summary:
      'install now, ignoring holds, windows, metered connections, hooks, quarantine, exhausted attempts and manual installations',
  },
  'allow-downgrade': { value: undefined, summary: 'allow an older release, this time only (root)' },
  'no-keep': { value: undefined, summary: 'do not back up the board first' },
  'exit-code': { value: undefined, summary: 'exit with 0 if ok, 1 if it waits or needs attention, 2 if it is broken' },
  reason: { value: 'TEXT', summary: 'reason, shown in agent status' },
  watch: { value: undefined, summary: 'show it again whenever it changes, until Ctrl-C' },
  follow: { value: undefined, summary: 'also print new entries, until Ctrl-C' },
  security: { value: undefined, summary: 'show security events' },
  textfile: { value: 'FILE', summary: 'write to FILE, for the textfile collector of node_exporter' },
  overwrite: { value: undefined, summary: 'replace FILE if it exists' },
  text: { value: undefined, summary: 'treat VALUE as text, even if it is valid JSON' },
  try: { value: undefined, summary: 'read the sensor once now; store and send nothing' },
  baud: { value: 'NUMBER', summary: 'baud rate of the serial line (default: 9600)' },
  parity: { value: 'PARITY', summary: 'parity of the serial line: even (default), odd or none' },
  at: { value: 'TIME', summary: 'time of the measurement (default: now)' },
  root: { value: 'DIR', summary: 'check as part of the root file system of an image in DIR' },
  offline: { value: undefined, summary: 'check only the file, and nothing that it refers to' },
  yes: { value: undefined, summary: 'use the detected values without asking' },
  from: { value: 'FILE', summary: 'previous trust list' },
  number: { value: 'NUMBER', summary: 'number of the trust list (default: one more than --from)' },
  keys: { value: 'LIST', summary: 'public keys to trust' },
  'not-before': { value: 'TIME', summary: 'start of the validity of --keys, for example 2026-12-01' },
  'not-after': { value: 'TIME', summary: 'end of the validity of --keys' },
  'revoke-keys': { value: 'LIST', summary: 'keys to revoke' },
  'revoke-releases': { value: 'LIST', summary: 'releases to revoke' },
  name: { value: 'NAME', summary: 'name of the release in the service' },
  'device-type': { value: 'TYPE', summary: 'device type of the gateways that may install it' },
  target: { value: 'TARGET', summary: 'name in [targets] (default: the target of kind slots)' },
  'security-version': { value: 'NUMBER', summary: 'security version of the release' },
  key: { value: 'FILE', summary: 'private key (default: leave the artifact unsigned)' },
  output: { value: 'FILE', summary: 'output artifact (default: NAME.delta.mender)' },
} as const;

export type OptionName = keyof typeof optionTable;

/** Every command takes these options. */
export const commonOptions: readonly OptionName[] = ['config', 'json', 'help'];

/** Every command accepts these options; only the general help lists `--version`. */
export const generalOptions: readonly OptionName[] = [...commonOptions, 'version'];

/** Headings of `agent --help`, in this order. */
export const commandGroups = [
  'Update',
  'Inspect',
  'Boards',
  'Service and measurements',
  'Configuration',
  'Daemon',
  'Release tools',
] as const;

export type CommandGroup = (typeof commandGroups)[number];

export const throughDaemon = 'Runs in the daemon, or in this process if no daemon is running.';

export interface Command {
  /** The words on the command line, for example `config check`. */
  readonly name: string;
  /** The operands in their order. An operand in brackets is optional. */
  readonly operands: readonly string[];
  /** The options that this command accepts in addition to the common ones. */
  readonly options: readonly OptionName[];
  /** The options that must be given. */
  readonly needed?: readonly OptionName[];
  readonly group: CommandGroup;
  readonly summary: string;
  /** Help texts of options that mean something else with this command. */
  readonly meanings?: Readonly<Partial<Record<OptionName, string>>>;
  /** The paragraphs of `--help`. */
  readonly details: readonly string[];
  /**
   * Resolves with the exit code; throws ArgumentError. Imports packages only when it needs them, since loading is slow
   * on small gateways.
   */
  readonly run: (typed: ParsedCommand, context: CliContext) => Promise<number>;
}

type CommandDefinition = Omit<Command, 'operands' | 'options' | 'group'> &
  Partial<Pick<Command, 'operands' | 'options' | 'group'>>;

/** Returns commands of this group, unless they name another one, without operands and options, unless they name some. */
export function commandsOf(group: CommandGroup, commands: readonly CommandDefinition[]): readonly Command[] {
  return commands.map((command) => ({ operands: [], options: [], group, ...command }));
}

/** The operands and options that were given with a command. The number of operands fits the command. */
export interface ParsedCommand {
  readonly operands: readonly string[];
  readonly flags: ReadonlySet<OptionName>;
  readonly values: ReadonlyMap<OptionName, string>;
  readonly json: boolean;
}

/** The arguments have the form of the command, but their values are invalid or do not fit together. */
export class ArgumentError extends Error {
  override readonly name = 'ArgumentError';
}

export interface ParsedArguments {
  readonly configFile: string | undefined;
  readonly json: boolean;
  readonly wanted: Invocation;
}

export type Invocation =
  | { readonly kind: 'command'; readonly command: Command; readonly typed: ParsedCommand }
  | { readonly kind: 'help'; readonly command: Command | undefined; readonly group?: readonly Command[] }
  | { readonly kind: 'version' }
  | UsageError;

export interface UsageError {
  readonly kind: 'usage-error';
  readonly message: string;
  /** The most similar command, or the usage line. */
  readonly advice: string;
}

/** Returns the text that follows `usage:`. */
export function usageLine(command: Command | undefined): string {
  if (command === undefined) return 'agent [--config FILE] [COMMAND]';
  const options = [...command.options, ...commonOptions.filter((name) => name !== 'help')].map((name) => {
    const { value } = optionTable[name];
    const written = value === undefined ? `--${name}` : `--${name} ${value}`;
    return command.needed?.includes(name) === true ? written : `[${written}]`;
  });
  return ['agent', command.name, ...command.operands, ...options].join(' ');
}
