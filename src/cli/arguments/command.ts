import type { CliContext } from '../context.ts';

/** Every option of the command line; `value` names the operand that follows the option. */
export const optionTable = {
  config: { value: 'FILE', summary: 'instead of /etc/thing-agent/config.toml' },
  json: { value: undefined, summary: 'answer in JSON, for programs' },
  help: { value: undefined, summary: 'show this' },
  version: { value: undefined, summary: 'show the version of the agent' },
  'update-now': { value: undefined, summary: 'check, install and report now' },
  'no-reboot': { value: undefined, summary: 'stop before the reboot and say that it is needed' },
  plan: { value: undefined, summary: 'only say how much would change' },
  force: { value: undefined, summary: 'what holds updates back does not count this once' },
  'allow-downgrade': { value: undefined, summary: 'an older release, this once (root)' },
  'no-keep': { value: undefined, summary: 'do not copy out first what the board holds' },
  'exit-code': { value: undefined, summary: 'end with 0 if all is well, 1 for attention, 2 if it is broken' },
  reason: { value: 'TEXT', summary: 'why, for whoever looks at it later' },
  security: { value: undefined, summary: 'of what concerned security' },
  textfile: { value: 'FILE', summary: 'write them there, for the textfile collector of node_exporter' },
  overwrite: { value: undefined, summary: 'FILE may exist: it is replaced' },
  text: { value: undefined, summary: 'VALUE is a text, even where it reads as JSON' },
  try: { value: undefined, summary: 'read it once now; nothing is kept or sent' },
  baud: { value: 'NUMBER', summary: 'of the serial line (default: 9600)' },
  parity: { value: 'PARITY', summary: 'of the serial line: even (default) or none' },
  at: { value: 'TIME', summary: 'when it was measured (default: now)' },
  root: { value: 'DIR', summary: 'as part of the root file system in DIR, of an image' },
  offline: { value: undefined, summary: 'look only at the file, and at nothing that it names' },
  yes: { value: undefined, summary: 'ask nothing: take what was found' },
  from: { value: 'FILE', summary: 'the list before this one' },
  number: { value: 'NUMBER', summary: 'of the list (default: one more than --from)' },
  keys: { value: 'LIST', summary: 'public keys that are trusted from now on' },
  'not-before': { value: 'TIME', summary: 'when --keys begin to be trusted, e.g. 2026-12-01' },
  'not-after': { value: 'TIME', summary: 'when --keys end to be trusted' },
  'revoke-keys': { value: 'LIST', summary: 'keys that are trusted no more' },
  'revoke-releases': { value: 'LIST', summary: 'releases that are installed no more' },
  name: { value: 'NAME', summary: 'of the release, as the service names it' },
  'device-type': { value: 'TYPE', summary: 'of the gateways that may install it' },
  target: { value: 'TARGET', summary: 'of [targets] (default: the one of kind slots)' },
  'security-version': { value: 'NUMBER', summary: 'of a release that closes a hole' },
  key: { value: 'FILE', summary: 'private key (default: it is signed later)' },
  output: { value: 'FILE', summary: 'the artifact (default: NAME.delta.mender)' },
} as const;

export type OptionName = keyof typeof optionTable;

/** Every command takes these options. */
export const commonOptions: readonly OptionName[] = ['config', 'json', 'help'];

/** Every command takes this one, too; only some say so. */
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

/** A paragraph for the details of most commands: how they are done. */
export const throughDaemon = 'The running daemon does it; without one, this program does it by itself.';

/** One command: how it is typed, how `--help` describes it, and the function that performs it. */
export interface Command {
  /** What a person types, e.g. `config check`. */
  readonly name: string;
  /** The operands in their order. All are needed, except one that stands in brackets. */
  readonly operands: readonly string[];
  /** The options that this command takes beside the common ones. */
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
   * Resolves with the exit code; throws Misuse. It imports packages only when it needs them, since a start on a small
   * board takes long.
   */
  readonly run: (typed: ParsedCommand, context: CliContext) => Promise<number>;
}

/** What a person typed with a command: as many operands as the command names, and its options. */
export interface ParsedCommand {
  readonly operands: readonly string[];
  readonly flags: ReadonlySet<OptionName>;
  readonly values: ReadonlyMap<OptionName, string>;
  readonly json: boolean;
}

/** What a person typed has the form of the command, but its values do not fit together. */
export class ArgumentError extends Error {
  override readonly name = 'Misuse';
}

/** The arguments of one start of the program. */
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
  /** The command that was probably meant, or how the command is written. */
  readonly advice: string;
}

/** The text that follows `usage:`. */
export function usageLine(command: Command | undefined): string {
  if (command === undefined) return 'agent [--config FILE] [COMMAND]';
  const options = [...command.options, ...commonOptions.filter((name) => name !== 'help')].map((name) => {
    const { value } = optionTable[name];
    const written = value === undefined ? `--${name}` : `--${name} ${value}`;
    return command.needed?.includes(name) === true ? written : `[${written}]`;
  });
  return ['agent', command.name, ...command.operands, ...options].join(' ');
}
