import type { CodeMeaning, ErrorMeaning } from '../../../system/define-errors.ts';
import { exitCodes } from '../../../system/errors.ts';
import { nearest } from '../../../system/nearest.ts';
import type { ParsedCommand } from '../../arguments/command.ts';
import type { CliContext } from '../../context.ts';
import { CliError } from '../../errors.ts';
import { renderParagraph } from '../../screen/layout.ts';
import { printResult } from '../print.ts';

/** `agent explain CODE`: prints the meaning of a code, offline. */
export async function explain(typed: ParsedCommand, context: CliContext): Promise<number> {
  const [asked = ''] = typed.operands;
  const code = asked
    .trim()
    .replace(/^\((.*)\)$/, '$1')
    .toLowerCase();
  const meaning = exitMeanings.get(code) ?? (await context.explain(code));
  if (meaning === undefined) {
    const meant = nearest(code, await context.errorCodes());
    throw new CliError('usage', `unknown code ${code}`, {
      advice:
        (meant === undefined ? '' : `did you mean ${meant}? `) +
        'a code is the word in parentheses at the end of a message, such as tls-unknown-ca, a state, or an exit code',
    });
  }
  const exitCode = 'exit' in meaning ? exitCodes[meaning.exit] : undefined;
  const lines = explanation(meaning);
  return printResult(
    { code, ...meaning, exitCode },
    (page) => lines.map((line) => renderParagraph(line, page)).join(''),
    typed,
    context,
  );
}

function explanation(meaning: ErrorMeaning | CodeMeaning): readonly string[] {
  const lines = [meaning.means];
  if (meaning.advice !== undefined) lines.push(`What to do: ${meaning.advice}.`);
  if ('remedy' in meaning) {
    lines.push(`Waiting ${meaning.remedy === 'retry' ? 'may fix it' : 'does not fix it'}.`);
    lines.push(`Commands that fail with this code exit with ${exitCodes[meaning.exit]}.`);
  }
  return lines;
}

/** The meanings of the exit codes of commands. */
const exitMeanings: ReadonlyMap<string, CodeMeaning> = new Map(
  [
    [0, 'The command succeeded.', 'nothing'],
    [
      1,
      'agent status --exit-code: an update waits, or the gateway needs attention. agent doctor: there are warnings.',
      'agent status',
    ],
    [2, 'agent status --exit-code: the gateway cannot be updated, or a board has no program.', 'agent status'],
    [exitCodes.usage, 'The command line or a file that it names is invalid.', 'agent help COMMAND'],
    [exitCodes.unreachable, 'The service or the daemon is not reachable.', 'agent doctor'],
    [
      exitCodes.failed,
      'The operation failed, or an update was rolled back.',
      'read the message; for an update: agent log',
    ],
    [exitCodes.disk, 'Storage, a board or the boot environment could not be read or written.', 'agent doctor'],
    [exitCodes.tryAgain, 'The agent is busy, or the cause is temporary.', 'run the command again later'],
    [
      exitCodes.protocol,
      'A response or the encoding of a firmware image is invalid.',
      'read the message, then: agent doctor',
    ],
    [
      exitCodes.refused,
      'The request was refused, or the update is deferred.',
      'read the message; it names the code, which agent explain CODE describes',
    ],
    [exitCodes.configuration, 'The configuration is missing or invalid.', 'agent config check'],
    [130, 'You interrupted the command with Ctrl-C.', 'nothing; to see what continues: agent status'],
    [143, 'The command was ended by SIGTERM.', 'nothing; to see what continues: agent status'],
  ].map(([code, means, advice]) => [String(code), { means: String(means), advice: String(advice) }]),
);
