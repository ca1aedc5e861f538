import { commonOptions, optionTable } from '../../src/cli/arguments/command.ts';
import type { Command, OptionName } from '../../src/cli/arguments/command.ts';
import { commandTable } from '../../src/cli/commands/command-table.ts';
import { errorCodes } from '../../src/error-catalogue.ts';

/** Completion for bash and zsh, from the table of commands. Both scripts are the same, except for the interface of the shell. */

/** Options that are valid without a command, or with a command that is an option. */
const toplevel: readonly OptionName[] = [
  'update-now',
  ...commandTable.flatMap(({ name, options }) => (name.startsWith('--') ? options : [])),
  ...commonOptions,
  'version',
];

/** Writes the assignments for the words, the options and the files that may follow. */
type Answer = (words: readonly string[], options: readonly OptionName[], isFile: boolean) => string;

/** Returns a case for each sequence of words before the cursor, without options, joined by spaces. */
function cases(answer: Answer): string {
  const commands = commandTable.filter(({ name }) => !name.startsWith('--'));
  const firsts = [...new Set(commands.map(({ name }) => name.split(' ')[0] ?? ''))];
  const groups = firsts.filter((first) => commands.some(({ name }) => name.startsWith(`${first} `)));
  const rows = [
    `    '') ${answer(firsts, toplevel, false)} ;;`,
    ...groups.map(
      (first) => `    '${first}') ${answer(secondWords(commands, first), optionsOf(commands, first), false)} ;;`,
    ),
    ...commands.flatMap((command) => operandCases(command, answer)),
    `    *) ${answer([], commonOptions, false)} ;;`,
  ];
  return rows.join('\n');
}

/** The options of a command that is also the start of others. */
function optionsOf(commands: readonly Command[], name: string): readonly OptionName[] {
  return [...(commands.find((command) => command.name === name)?.options ?? []), ...commonOptions];
}

/** Returns the second words of commands; if the first word is a command itself, also the values of its operand. */
function secondWords(commands: readonly Command[], first: string): readonly string[] {
  const own = commands.find(({ name }) => name === first)?.operands[0];
  const words = commands.flatMap(({ name }) => (name.startsWith(`${first} `) ? [name.slice(first.length + 1)] : []));
  return own === undefined ? words : [...words, ...namesFor(first, own)];
}

/** A case for each word that may follow a command: the pattern has a star for each operand that is there already. */
function operandCases({ name, operands, options }: Command, answer: Answer): readonly string[] {
  const all = [...options, ...commonOptions];
  return [...operands, undefined]
    .map((operand, index) => {
      const words = operand === undefined ? [] : namesFor(name, operand);
      return `    '${name}'${"' '*".repeat(index)}) ${answer(words, all, operand === 'FILE')} ;;`;
    })
    .toReversed();
}

/** Returns the values of an operand: codes, or a shell expression that reads names from this gateway. */
function namesFor(command: string, operand: string): readonly string[] {
  if (operand === 'CODE') return [...new Set(errorCodes())];
  if (operand === '[ATTEMPT]') return [namesOf('history', 'attempt')];
  if (operand === 'VERSION') return [namesOf('status', 'version', `sed 's/.*"quarantine":\\[//; s/\\].*//' | `)];
  if (operand === 'NAME' && command.startsWith('mcu ')) return [namesOf('mcu list', 'name')];
  return operand === '[NAME]' && command === 'sensors' ? [namesOf('sensors', 'id')] : [];
}

/** Returns a shell expression for the values of a member in the JSON that a command prints. */
function namesOf(command: string, member: string, filter = ''): string {
  return `$(agent ${command} --json 2>/dev/null | ${filter}grep -o '"${member}":"[^"]*"' | cut -d'"' -f4 | sort -u)`;
}

const withValue = (wanted: (value: string) => boolean): string =>
  Object.entries(optionTable)
    .flatMap(([name, { value }]) => (value !== undefined && wanted(value) ? [`--${name}`] : []))
    .join(' | ');

const optionWords = (options: readonly OptionName[]): string => options.map((name) => `--${name}`).join(' ');

export function bashCompletion(): string {
  const answer = (words: readonly string[], options: readonly OptionName[], isFile: boolean): string =>
    `words="${words.join(' ')}" options='${optionWords(options)}' files=${isFile ? 'yes' : ''}`;
  return `# Completion of agent(8) for bash; made from its table of commands.
_agent() {
  local current=\${COMP_WORDS[COMP_CWORD]} typed= index words= options= files=
  case \${COMP_WORDS[COMP_CWORD - 1]} in
    ${withValue((value) => value === 'FILE')}) mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
    ${withValue((value) => value !== 'FILE')}) COMPREPLY=(); return ;;
  esac
  for ((index = 1; index < COMP_CWORD; index++)); do
    case \${COMP_WORDS[index]} in
      ${withValue(() => true)}) index=$((index + 1)) ;;
      -*) ;;
      *) typed+=\${typed:+ }\${COMP_WORDS[index]} ;;
    esac
  done
  case $typed in
${cases(answer)}
  esac
  if [[ $current == -* ]]; then mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  elif [[ $files ]]; then mapfile -t COMPREPLY < <(compgen -f -- "$current")
  else mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current"); fi
}
complete -o filenames -F _agent agent
`;
}

export function zshCompletion(): string {
  const answer = (words: readonly string[], options: readonly OptionName[], isFile: boolean): string =>
    `next=(${words.join(' ')}) options=(${optionWords(options)}) files=${isFile ? 'yes' : ''}`;
  return `#compdef agent
# Completion of agent(8) for zsh; made from its table of commands.
local typed= files= index
local -a next options
case $words[CURRENT-1] in
  ${withValue((value) => value === 'FILE')}) _files; return ;;
  ${withValue((value) => value !== 'FILE')}) return ;;
esac
for ((index = 2; index < CURRENT; index++)); do
  case $words[index] in
    ${withValue(() => true)}) index=$((index + 1)) ;;
    -*) ;;
    *) typed+=\${typed:+ }$words[index] ;;
  esac
done
case $typed in
${cases(answer)}
esac
if [[ $words[CURRENT] == -* ]]; then compadd -a options
elif [[ -n $files ]]; then _files
else compadd -a next; fi
`;
}
