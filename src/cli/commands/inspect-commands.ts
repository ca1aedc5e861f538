import type { FileReport } from '../../control/file-report.ts';
import { stateExitCodes, stateOf, troublesOf } from '../../control/gateway-state.ts';
import type { HistoryReport } from '../../control/history.ts';
import type { DoctorFinding } from '../../control/reports.ts';
import type { CodeMeaning, ErrorMeaning } from '../../system/define-errors.ts';
import { AgentError, exitCodes } from '../../system/errors.ts';
import { nearest } from '../../system/nearest.ts';
import { ArgumentError, throughDaemon } from '../arguments/command.ts';
import type { Command, ParsedCommand } from '../arguments/command.ts';
import type { CliContext } from '../context.ts';
import { CliError } from '../errors.ts';
import { renderParagraph } from '../screen/layout.ts';
import { renderFile } from '../screen/pages/render-file.ts';
import { renderCheck, renderDoctor } from '../screen/pages/render-reports.ts';
import { renderHistory, renderSecurityLog, renderStatus, renderStory } from '../screen/pages/render-rows.ts';
import { wholePath } from './named-file.ts';
import { printResult } from './print.ts';
import { withAgent, withReadOnlyAgent } from './with-agent.ts';

export const inspectCommands: readonly Command[] = [
  {
    name: 'check',
    operands: [],
    options: [],
    group: 'Update',
    summary: 'what an update would do; installs nothing',
    details: ['Asks the service: a gateway that is not activated yet is activated by that.', throughDaemon],
    run: check,
  },
  {
    name: 'status',
    operands: [],
    options: ['exit-code'],
    group: 'Inspect',
    summary: 'what is installed, what goes on, what comes next',
    details: [
      'Never refused, whoever is at work; beside a daemon that has not answered for 5 s it says so, and looks by itself. A program reads state, troubles and idleCode of --json, whose words stay.',
      'With --exit-code, for monitoring: 0 well, or at work by itself; 1 a person should look; 2 it cannot be updated, or a board runs nothing. 64 and more: it could not be asked.',
    ],
    run: status,
  },
  {
    name: 'doctor',
    operands: [],
    options: [],
    group: 'Inspect',
    summary: 'test everything that an update needs',
    details: [
      'Changes nothing. Exits with 70 if a test fails, and with 1 if there are only warnings: an update works, but the gateway may not recover from a failure.',
      'A daemon that does not answer is all that it finds: it may be at work at what would be tested.',
    ],
    run: doctor,
  },
  {
    name: 'info',
    operands: ['FILE'],
    options: [],
    group: 'Inspect',
    summary: 'what a file is, and whether it would be installed',
    details: [
      'For whom it is, which key signed it, what it holds, and everything that stands in the way here. FILE is read to its end; nothing is changed.',
      'Without a configuration it says what the file says of itself. Ends with 77 where it would not be installed.',
    ],
    run: info,
  },
  {
    name: 'history',
    operands: [],
    options: [],
    group: 'Inspect',
    summary: 'attempts to install: how each ended, and why',
    details: [
      'The last 50, kept across updates: from what to what, who asked for it, how long it took, and what was fetched and written.',
      'agent log ATTEMPT shows the steps of one.',
    ],
    run: history,
  },
  {
    name: 'log',
    operands: ['[ATTEMPT]'],
    options: ['security'],
    group: 'Inspect',
    summary: 'the story of one attempt, or --security',
    details: [
      'ATTEMPT is the begin of its id, as agent history shows it, or last.',
      'With --security: the last events, kept across updates. What happens again within an hour is counted.',
      'Everything else that the agent does is in journalctl -u thing-agent.',
    ],
    run: showLog,
  },
  {
    name: 'explain',
    operands: ['CODE'],
    options: [],
    group: 'Inspect',
    summary: 'what a code means, and what to do',
    details: [
      'CODE is that of an error, or a word of agent status --json. Asks nobody: it works without a daemon, a configuration and a network.',
    ],
    run: explain,
  },
];

/** How many attempts are listed where the typed id fits several. */
const MAX_CANDIDATES = 5;

async function status(typed: ParsedCommand, context: CliContext): Promise<number> {
  const report = await withReadOnlyAgent(context, (agent) => agent.status({}, context.signal));
  const exitCode = printResult(report, (page) => renderStatus(report, page), typed, context);
  if (!typed.flags.has('exit-code')) return exitCode;
  return stateExitCodes[report.state ?? stateOf({ ...report, problems: troublesOf(report) })];
}

async function check(typed: ParsedCommand, context: CliContext): Promise<number> {
  const report = await withAgent(context, (agent) => agent.check({}, context.signal));
  const meaning = report.lastAttempt && (await context.explain(report.lastAttempt.code));
  return printResult(report, (page) => renderCheck(report, page, meaning?.advice), typed, context);
}

/** The exit code of `agent doctor` if no test fails but some warn, as 1 of `agent status --exit-code`. */
const ONLY_WARNINGS = 1;

async function doctor(typed: ParsedCommand, context: CliContext): Promise<number> {
  const findings = await examine(context);
  printResult({ findings }, (page) => renderDoctor(findings, page), typed, context);
  if (!findings.every(({ ok }) => ok)) return exitCodes.failed;
  return findings.some(({ isWarning }) => isWarning === true) ? ONLY_WARNINGS : exitCodes.done;
}

async function info(typed: ParsedCommand, context: CliContext): Promise<number> {
  const path = wholePath(typed.operands[0] ?? '', context);
  const report = await inspect(path, context);
  printResult(report, (page) => renderFile(report, page), typed, context);
  return report.obstacles.length === 0 ? exitCodes.done : exitCodes.refused;
}

/** Inspects a file with the agent; on a machine that is no gateway, without a configuration. */
async function inspect(path: string, context: CliContext): Promise<FileReport> {
  await using file = await context.openFile(path);
  try {
    return await withReadOnlyAgent(context, (agent) => agent.inspect({ path, file }, context.signal));
  } catch (error) {
    if (!(error instanceof AgentError) || error.exit !== 'configuration') throw error;
    return { ...(await context.inspect({ path, file }, context.signal)), unjudged: error.message };
  }
}

async function history(typed: ParsedCommand, context: CliContext): Promise<number> {
  const report = await withReadOnlyAgent(context, (agent) => agent.history({}, context.signal));
  return printResult(report, (page) => renderHistory(report, page), typed, context);
}

async function showLog(typed: ParsedCommand, context: CliContext): Promise<number> {
  const [attempt] = typed.operands;
  const isOfSecurity = typed.flags.has('security');
  if (attempt !== undefined && !isOfSecurity) return showAttempt(attempt, typed, context);
  if (!isOfSecurity || attempt !== undefined) {
    throw new ArgumentError('say of what: ATTEMPT is one of agent history, --security shows the security events');
  }
  const report = await withReadOnlyAgent(context, (agent) => agent.securityLog({}, context.signal));
  return printResult(report, (page) => renderSecurityLog(report, page), typed, context);
}

async function showAttempt(word: string, typed: ParsedCommand, context: CliContext): Promise<number> {
  const { attempts } = await withReadOnlyAgent(context, (agent) => agent.history({}, context.signal));
  const found = word === 'last' ? attempts.at(-1) : findUniqueAttempt(attempts, word);
  if (found === undefined) {
    throw new CliError('usage', `there is no attempt ${word}`, { advice: 'agent history shows those that are kept' });
  }
  return printResult(found, (page) => renderStory(found, page), typed, context);
}

/** The attempt with this id, or the only one whose id begins like this. */
function findUniqueAttempt(
  attempts: HistoryReport['attempts'],
  word: string,
): HistoryReport['attempts'][number] | undefined {
  const exact = attempts.findLast(({ attempt }) => attempt === word);
  const begins = attempts.filter(({ attempt }) => attempt.startsWith(word));
  const ids = [...new Set(begins.map(({ attempt }) => attempt))];
  if (exact !== undefined || ids.length < 2) return exact ?? begins.at(-1);
  const named = begins.slice(-MAX_CANDIDATES).map(({ attempt, version }) => `${attempt.slice(0, 13)} (${version})`);
  const rest = begins.length > MAX_CANDIDATES ? ` and ${begins.length - MAX_CANDIDATES} before them` : '';
  throw new CliError('usage', `${ids.length} attempts begin with ${word}: ${named.join(', ')}${rest}`, {
    advice: 'type more of its id, or last',
  });
}

/** The findings of `doctor`. An error that keeps the agent from being examined becomes a finding, too. */
export async function examine(context: CliContext): Promise<readonly DoctorFinding[]> {
  try {
    return await withAgent(context, async (agent, worker) => {
      const { findings } = await agent.doctor({}, context.signal);
      return [daemonFindings[worker], ...findings];
    });
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    return [{ name: 'agent', ok: false, detail: `${error.message} (${error.code})`, advice: error.advice }];
  }
}

const daemonFindings = {
  daemon: { name: 'daemon', ok: true, detail: 'it runs and answers' },
  'this process': {
    name: 'daemon',
    ok: false,
    detail: 'no daemon answers on the control socket',
    advice: 'systemctl start thing-agent; see why it ended: journalctl -u thing-agent',
  },
} as const;

/** `agent explain CODE`: shows what the catalogue says about one code, offline. */
async function explain(typed: ParsedCommand, context: CliContext): Promise<number> {
  const [asked = ''] = typed.operands;
  const code = asked
    .trim()
    .replace(/^\((.*)\)$/, '$1')
    .toLowerCase();
  const meaning = await context.explain(code);
  if (meaning === undefined) {
    const meant = nearest(code, await context.errorCodes());
    throw new CliError('usage', `there is no code ${code}`, {
      advice:
        (meant === undefined ? '' : `did you mean ${meant}? `) +
        'a code is what stands in brackets at the end of a message, such as tls-unknown-ca',
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
    const waiting = meaning.remedy === 'retry' ? 'may cure it: the agent tries again' : 'does not cure it';
    lines.push(`Waiting ${waiting}.`);
    lines.push(`A command that fails so ends with exit code ${exitCodes[meaning.exit]}.`);
  }
  return lines;
}
