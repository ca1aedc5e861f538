import type { FileReport } from '../../../control/file-report.ts';
import { stateExitCodes, stateOf, problemsOf } from '../../../control/gateway-state.ts';
import type { DoctorFinding } from '../../../control/reports.ts';
import { AgentError, exitCodes } from '../../../system/errors.ts';
import { commandsOf, throughDaemon } from '../../arguments/command.ts';
import type { ParsedCommand } from '../../arguments/command.ts';
import type { CliContext } from '../../context.ts';
import { renderFile } from '../../screen/pages/render-file.ts';
import { renderCheck, renderDoctor } from '../../screen/pages/render-reports.ts';
import { renderHistory, renderStatus } from '../../screen/pages/render-rows.ts';
import { wholePath } from '../named-file.ts';
import { printResult } from '../print.ts';
import { readStatus, withAgent, withNamedConfig, withReadOnlyAgent } from '../with-agent.ts';
import { showLog } from './attempt-log.ts';
import { explain } from './explain.ts';
import { watchStatus } from './watch-status.ts';

export const inspectCommands = commandsOf('Inspect', [
  {
    name: 'check',
    group: 'Update',
    summary: 'show what an update would install',
    details: ['Queries the service, and activates the gateway if it is not activated yet.', throughDaemon],
    run: check,
  },
  {
    name: 'status',
    options: ['exit-code', 'watch'],
    summary: 'show what is running, and whether you need to act',
    details: [
      'Works without a daemon. With an invalid configuration, shows the state by its valid part. If the daemon does not respond within 5 s, reads the state directly and warns you. Programs can rely on state, problems and idleCode of --json.',
      'With --exit-code, for monitoring: 0 ok, busy or on trial; 1 anything that waits or needs you (staged, on hold, interrupted, rolling back, needs attention); 2 broken, the gateway cannot be updated or a board has no program; 64 or more: status unavailable. For 1 and 2, To do names the next step.',
    ],
    run: status,
  },
  {
    name: 'doctor',
    summary: 'diagnose everything that updates and measurements need',
    details: [
      'Changes nothing. The exit code is 70 if a check fails: an update, a board or a sensor does not work. It is 1 if there are only warnings: updates work, but the gateway may not recover from a failure.',
      'If the daemon is not responding, this is the only finding: the daemon may be using the devices that would be checked.',
    ],
    run: doctor,
  },
  {
    name: 'info',
    operands: ['FILE'],
    summary: 'inspect a file, and show whether it would be installed',
    details: [
      'Shows device types, signing key, contents, and every reason that prevents its installation on this gateway. The installation also checks the content of packages, and whether an image fits the chip of its board. Reads FILE completely; changes nothing.',
      'Without a configuration, shows only the contents of the file. The exit code is 77 if the file would not be installed.',
    ],
    run: info,
  },
  {
    name: 'history',
    summary: 'list update attempts and their results',
    details: [
      'Shows the last 50 attempts, also from before an update: versions, trigger, duration, and the bytes downloaded and written.',
      'To see the steps of one attempt, run agent log ATTEMPT.',
    ],
    run: history,
  },
  {
    name: 'log',
    operands: ['[ATTEMPT]'],
    options: ['follow', 'security'],
    summary: 'show the steps of an attempt, or security events',
    details: [
      'ATTEMPT is the start of an id in agent history. Without it, shows the last attempt.',
      'With --follow, also prints new steps or events, until Ctrl-C.',
      'With --security, shows the last security events, also from before an update. Events that repeat within an hour are counted.',
      'For the log of the agent, run journalctl -u thing-agent.',
    ],
    run: showLog,
  },
  {
    name: 'explain',
    operands: ['CODE'],
    summary: 'explain an error code, a state or an exit code',
    details: [
      'CODE is an error code, a code in agent status --json such as a state, or an exit code. Works without daemon, configuration and network.',
    ],
    run: explain,
  },
]);

async function status(typed: ParsedCommand, context: CliContext): Promise<number> {
  if (typed.flags.has('watch')) return watchStatus(typed, context);
  const report = await readStatus(context);
  const exitCode = printResult(report, (page) => renderStatus(report, page), typed, context);
  if (!typed.flags.has('exit-code')) return exitCode;
  return stateExitCodes[report.state ?? stateOf({ ...report, problems: problemsOf(report) })];
}

async function check(typed: ParsedCommand, context: CliContext): Promise<number> {
  const report = await withAgent(context, (agent) => agent.check({}, context.signal));
  const meaning = report.lastAttempt && (await context.explain(report.lastAttempt.code));
  return printResult(report, (page) => renderCheck(report, page, meaning?.advice), typed, context);
}

/** The exit code of `agent doctor` if no check fails but some warn, as 1 of `agent status --exit-code`. */
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

/** Inspects a file with the agent, or without a configuration on a machine that is not a gateway. */
async function inspect(path: string, context: CliContext): Promise<FileReport> {
  await using file = await context.openFile(path);
  try {
    return await withNamedConfig(context, (agent) => agent.inspect({ path, file }, context.signal));
  } catch (error) {
    if (!(error instanceof AgentError) || error.exit !== 'configuration') throw error;
    return { ...(await context.inspect({ path, file }, context.signal)), unjudged: error.message };
  }
}

async function history(typed: ParsedCommand, context: CliContext): Promise<number> {
  const report = await withReadOnlyAgent(context, (agent) => agent.history({}, context.signal));
  return printResult(report, (page) => renderHistory(report, page), typed, context);
}

/** Returns the findings of `doctor`. If the agent cannot be examined, the error becomes a finding. */
export async function examine(context: CliContext): Promise<readonly DoctorFinding[]> {
  try {
    return await withAgent(context, async (agent, worker) => {
      const { findings } = await agent.doctor({}, context.signal);
      const daemon = daemonFindings[worker];
      const isOther = context.isConfigNamed && worker === 'daemon';
      return [
        isOther ? { ...daemon, detail: `${daemon.detail}; it checks its own configuration` } : daemon,
        ...findings,
      ];
    });
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    return [{ name: 'agent', ok: false, detail: `${error.message} (${error.code})`, advice: error.advice }];
  }
}

const daemonFindings = {
  daemon: { name: 'daemon', ok: true, detail: 'running and responding' },
  'this process': {
    name: 'daemon',
    ok: false,
    detail: 'the daemon is not running',
    advice: 'start it with systemctl start thing-agent; its log: journalctl -u thing-agent',
  },
} as const;
