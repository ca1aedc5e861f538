import { failsForLong, stateOf, problemsOf } from '../gateway-state.ts';
import type { GatewayState, Problem } from '../gateway-state.ts';
import type { Activity, HoldReport, OutcomeReport, StatusReport } from '../reports.ts';
import { formatBytes } from './bytes.ts';
import { pluralize } from './counted.ts';
import { operationWords } from './operation-words.ts';
import { phaseTitles } from './phases.ts';
import { isManual } from './rows/package-rows.ts';
import type { Message, Tone } from './rows/row.ts';
import { formatDuration, formatTime } from './time.ts';
import type { When } from './time.ts';

/** Returns the first line of a status: what is running, and what is the matter. */
export function headlineOf(report: StatusReport, when: When): Message {
  const { tone, running, matter } = headlineParts(report, when);
  return { tone, text: `${running} ${matter}` };
}

/** Returns the two parts of the first line. */
export function headlineParts(
  report: StatusReport,
  when: When,
): { readonly tone: Tone; readonly running: string; readonly matter: string } {
  const problems = report.problems ?? problemsOf(report);
  const state = report.state ?? stateOf({ ...report, problems });
  const { tone, text } = matterOf(report, state, problems, when);
  return { tone, running: sentence(runningText(report)), matter: sentence(text) };
}

/** Returns a text as a sentence. The name of a version, a board or a sensor at its start keeps its case. */
export function sentence(text: string): string {
  const start = /^(all|an|busy|it|no|the|updates)\b/.test(text) ? text.charAt(0).toUpperCase() : text.charAt(0);
  return `${start}${text.slice(1).replace(/\.$/, '')}.`;
}

/** Returns what is running, as the first sentence of a status. */
function runningText({ running, installed, slotStates, problems }: StatusReport): string {
  if (running === undefined)
    return installed === undefined ? 'The gateway is running' : `${installed.versionName} is running`;
  const { version, isFactory, isOnTrial } = running;
  if (version === undefined && isFactory) return 'The factory image is running';
  if (version === undefined) return slotStates === undefined ? 'The gateway is running' : unknownText(problems);
  return `${version}${isFactory ? ', the factory image,' : ''} is running${isOnTrial ? ' on trial' : ''}`;
}

function unknownText(problems: readonly Problem[] = []): string {
  const why = problems.includes('journal-lost') ? '' : ': the agent did not install it';
  return `The running version is unknown${why}`;
}

function matterOf(report: StatusReport, state: GatewayState, problems: readonly Problem[], when: When): Message {
  if (report.activity !== undefined) return matterOfActivity(report.activity, report);
  if (problems.includes('daemon-starting') && state === 'busy')
    return { tone: 'attention', text: 'the daemon is starting' };
  if (report.phase !== 'idle' && state !== 'broken' && state !== 'needs-attention') return matterOfPhase(report, when);
  if (problems.length > 0) return matterOfProblems(problems, state, report);
  if (report.hold !== undefined) return { tone: 'attention', text: describeHold(report.hold, when) };
  return matterOfIdle(report);
}

function matterOfProblems(problems: readonly Problem[], state: GatewayState, report: StatusReport): Message {
  const isUnknown = problems.includes('not-activated') && report.service.lastError !== undefined;
  const told = problems.filter((problem) => !(isUnknown && problem === 'service-failing')); // it is the reason
  const texts = told.map((problem) => problemTexts[problem](report));
  return { tone: state === 'broken' ? 'bad' : 'attention', text: texts.map(sentence).join(' ') };
}

/** The codes with which a rollback by an operator is the last event worth a headline. */
const atRest: ReadonlySet<string> = new Set(['up-to-date', 'nothing-offered', 'quarantined']);

function matterOfIdle(report: StatusReport): Message {
  const { packages = [], idleCode = 'up-to-date', idleReason } = report;
  const names = packages.filter(isManual).map(({ package: known }) => known);
  if (names.length > 0) {
    const text = `${names.join(' and ')} ${names.length === 1 ? 'was' : 'were'} replaced manually: see Packages`;
    return { tone: 'attention', text };
  }
  if (report.lastOutcome?.code === 'manual' && atRest.has(idleCode)) return manualRollback(report.lastOutcome);
  if (idleCode === 'up-to-date' || idleCode === 'nothing-offered') return { tone: 'good', text: 'all is well' };
  return {
    tone: idleCode === 'update-available' || idleCode === 'not-asked' ? 'strong' : 'attention',
    text: idleReason,
  };
}

function manualRollback({ by, version }: OutcomeReport): Message {
  const text = by === 'rollback' ? `the rollback to ${version} was cancelled` : `an operator rolled back ${version}`;
  return { tone: 'strong', text };
}

const problemTexts: Readonly<Record<Problem, (report: StatusReport) => string>> = {
  'board-half-written': ({ boards }) => {
    const half = boards.filter(({ writing }) => writing !== undefined).map(({ name }) => name);
    return `${half.join(', ')} is partially flashed and may have no program`;
  },
  'update-impossible': ({ idleReason }) => `updates are not possible (${idleReason})`,
  'config-unusable': () => 'the configuration file cannot be used, so the next start of the agent would fail',
  'journal-lost': ({ phase }) =>
    phase === 'lost'
      ? 'the journal of updates could not be read, so an interrupted update is unknown'
      : 'the journal of updates was damaged, so earlier results and blocked versions are unknown',
  'trust-list-damaged': () => 'the trust list is damaged, so no update is installed',
  'no-trusted-key': () => 'no key is trusted, so no update can be installed',
  'no-daemon': (report) =>
    report.phase === 'trial' ? trialText(report) : 'the daemon is not running, so the service is not checked',
  'daemon-starting': () => 'the daemon is starting',
  'daemon-unresponsive': () => 'the daemon is not responding, so the service is not checked',
  'release-revoked': () => 'the running release was revoked',
  'not-activated': ({ service: { lastError } }) =>
    `the gateway is not activated yet${lastError === undefined ? '' : `: ${lastError}`}`,
  'last-attempt-failed': (report) => `the ${kindOfLast(report)} to ${lastAttempt(report, 'failed')}`,
  'last-attempt-refused': (report) => lastAttempt(report, 'was refused'),
  'last-attempt-rolled-back': (report) => `the ${kindOfLast(report)} to ${lastAttempt(report, 'was rolled back')}`,
  'service-failing': ({ service: { lastError } }) => describeServiceError(lastError ?? 'unknown error'),
  'sensor-failing': ({ telemetry }) => failingSensors(telemetry),
};

/** The calls of an update check, at the start of an error. */
export const duringCheck = /^(?:target version|updates from version \S+): /;

/** Describes an error without the address and the reply of the service, which have a row of their own. */
function describeServiceError(error: string): string {
  const call = duringCheck.test(error) ? 'the last update check' : 'the last call to the service';
  const why = error.replace(duringCheck, '').replace(/ \(status (\d+) of .*$/su, ' (HTTP $1)');
  return `${call} failed: ${why}`;
}

function failingSensors(telemetry: StatusReport['telemetry']): string {
  const [first, ...others] = (telemetry?.sources ?? []).filter(failsForLong);
  const more = others.length === 0 ? '' : ` and ${pluralize(others.length, 'other sensor')}`;
  return `${first?.name ?? 'a sensor'}${more} delivered no reading for 10 min or more`;
}

function kindOfLast({ lastOutcome }: StatusReport): string {
  return lastOutcome?.by === 'rollback' ? 'rollback' : 'update';
}

function lastAttempt({ lastOutcome }: StatusReport, end: string): string {
  if (lastOutcome === undefined) return `a version ${end}`;
  const { version, reason, code } = lastOutcome;
  return `${version} ${end}: ${reason} (${code})`;
}

/** A trial keeps its own text while an operation works on it. */
function matterOfActivity(activity: Activity, report: StatusReport): Message {
  const { process, operation, board, phase } = activity;
  if (report.phase === 'rolling-back') return { tone: 'attention', text: report.idleReason };
  if (report.phase === 'trial' && board === undefined) return { tone: 'attention', text: trialText(report) };
  if (operation === undefined) return { tone: 'strong', text: `busy: ${process} is running` };
  const title = phase === undefined || phase === 'checking' ? operationWords[operation].doing : phaseTitles[phase];
  const what = report.phase === 'staging' && phase === 'staging' ? report.idleReason : `busy: ${title}`;
  return { tone: 'strong', text: `${what}${board === undefined ? '' : ` ${board}`}${progressText(activity)}` };
}

/** Returns the progress of a transfer with the time left, for example `: 29% of 19.2 MiB, 40 s left`. */
export function progressText({ doneBytes, totalBytes, leftMs }: Activity): string {
  if (doneBytes === undefined) return '';
  const left = leftMs === undefined ? '' : `, ${formatDuration(leftMs)} left`;
  if (totalBytes === undefined || totalBytes <= 0) return `: ${formatBytes(doneBytes)}${left}`;
  return `: ${percentOf(doneBytes, totalBytes)}% of ${formatBytes(totalBytes)}${left}`;
}

export function percentOf(doneBytes: number, totalBytes: number): number {
  return Math.floor(Math.min(1, doneBytes / totalBytes) * 100);
}

function matterOfPhase(report: StatusReport, when: When): Message {
  const { phase, downloaded, idleReason, idleCode, hold } = report;
  const tone = 'attention';
  switch (phase) {
    case 'staging': {
      if (idleCode === 'on-hold' && hold !== undefined) return { tone, text: describeHold(hold, when) };
      const part = downloaded && downloaded.totalBytes > 0 && percentOf(downloaded.bytes, downloaded.totalBytes);
      return { tone, text: typeof part === 'number' ? `${idleReason} at ${part}%` : idleReason };
    }
    case 'staged':
      return { tone, text: `${idleReason} and starts ${startOf(report)}` };
    case 'trial':
      return { tone, text: trialText(report) };
    case 'rolling-back':
      return { tone, text: idleReason };
    default:
      return { tone: 'strong', text: `busy: ${phase}` };
  }
}

function trialText({ daemon, activity, previous }: StatusReport): string {
  const back = previous === undefined ? '' : ` to ${previous.versionName}`;
  return daemon || activity !== undefined
    ? `it is committed if its health checks pass, else rolled back${back}`
    : `the daemon is not running, so no health checks run; without a commit it is rolled back${back}`;
}

/** Returns when a staged version starts. Once the bootloader is set to boot it, any reboot starts it. */
function startOf({ rebootDeferral, hookDeferral, booted, slotStates, daemon }: StatusReport): string {
  if (rebootDeferral !== undefined)
    return daemon ? 'in its reboot window' : 'only when the daemon runs in its reboot window';
  if (hookDeferral !== undefined) return 'when its hook allows it';
  if (booted === undefined) return 'at the next check';
  const isArmed =
    slotStates === undefined ||
    Object.entries(slotStates).some(([slot, { bootsNext }]) => bootsNext && slot !== booted);
  return isArmed ? 'at the next boot' : 'when the agent reboots';
}

/** Describes a hold and its end. */
export function describeHold({ until, reason }: HoldReport, when: When): string {
  const end = until === undefined ? 'until you resume them' : `until ${formatTime(until, when)}`;
  return `updates are on hold ${end}${reason === undefined ? '' : `: ${reason}`}`;
}
