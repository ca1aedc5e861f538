import { failsForLong, stateOf, troublesOf } from '../gateway-state.ts';
import type { Problem } from '../gateway-state.ts';
import type { Activity, HoldReport, StatusReport } from '../reports.ts';
import { formatBytes } from './bytes.ts';
import { pluralize } from './counted.ts';
import { operationWords } from './operation-words.ts';
import { phaseTitles } from './phases.ts';
import { isManual } from './rows/package-rows.ts';
import type { Message } from './rows/row.ts';
import { formatTime } from './time.ts';
import type { When } from './time.ts';

/** Returns the first line of a status. */
export function headlineOf(report: StatusReport, when: When): Message {
  const troubles = report.problems ?? troublesOf(report);
  const state = report.state ?? stateOf({ ...report, problems: troubles });
  if (report.activity !== undefined) return headlineOfActivity(report.activity, report);
  if (troubles.includes('daemon-starting') && state === 'busy')
    return { tone: 'attention', text: 'Starting: the daemon is not responding yet.' };
  if (report.phase !== 'idle' && state !== 'broken' && state !== 'needs-attention') return headlineOfPhase(report);
  if (troubles.length > 0) {
    return headlineOfTroubles(troubles, state === 'broken', report);
  }
  if (report.hold !== undefined) return { tone: 'attention', text: describeHold(report.hold, when) };
  if (report.installed === undefined) return { tone: 'good', text: 'Ready. No update attempts yet.' };
  return headlineOfInstalled(report.installed.versionName, report.packages);
}

function headlineOfTroubles(troubles: readonly Problem[], isBroken: boolean, report: StatusReport): Message {
  const isUnknown = troubles.includes('not-activated') && report.service.lastError !== undefined;
  const told = troubles.filter((trouble) => !(isUnknown && trouble === 'service-failing')); // it is why
  const texts = told.map((trouble) => troubleTexts[trouble](report));
  return {
    tone: isBroken ? 'bad' : 'attention',
    text: `${isBroken ? 'Broken' : 'Attention'}: ${texts.join('; ')}.`,
    ...(isUnknown && { advice: 'What to do: agent doctor' }),
  };
}

function headlineOfInstalled(version: string, packages: StatusReport['packages'] = []): Message {
  const names = packages.filter(isManual).map(({ package: known }) => known);
  if (names.length === 0) return { tone: 'good', text: `All is well: ${version} is installed.` };
  const text = `${version} is installed, but ${names.join(' and ')} ${names.length === 1 ? 'was' : 'were'} replaced manually since: see Packages.`;
  return { tone: 'attention', text };
}

type DescribeTrouble = (report: StatusReport) => string;

const troubleTexts: Readonly<Record<Problem, DescribeTrouble>> = {
  'board-half-written': ({ boards }) => {
    const half = boards.filter(({ writing }) => writing !== undefined).map(({ name }) => name);
    return `${half.join(', ')} is partially flashed and has no program`;
  },
  'update-impossible': ({ idleReason }) => `updates are not possible (${idleReason})`,
  'config-unusable': () => 'the configuration file cannot be used, so the next start of the agent would fail',
  'journal-lost': () => 'the journal of updates could not be read, so an interrupted update is unknown',
  'trust-list-damaged': () => 'the trust list is damaged, so no update is installed',
  'no-trusted-key': () => 'there is no usable trusted key, so no update can be installed',
  'no-daemon': () => 'the daemon is not running, so the service is not checked',
  'daemon-starting': () => 'the daemon is starting',
  'daemon-unresponsive': () => 'the daemon is not responding, so the service is not checked',
  'release-revoked': () => 'the running release was revoked',
  'not-activated': ({ service: { lastError } }) =>
    `not activated yet${lastError === undefined ? '' : `: ${lastError}`}`,
  'last-attempt-failed': (report) => `the update to ${lastVersion(report)} failed`,
  'last-attempt-refused': (report) => `${lastVersion(report)} was refused`,
  'last-attempt-rolled-back': (report) => `${lastVersion(report)} was rolled back`,
  'service-failing': () => 'the last call to the service failed',
  'sensor-failing': ({ telemetry }) => failingSensors(telemetry),
};

function failingSensors(telemetry: StatusReport['telemetry']): string {
  const [first, ...others] = (telemetry?.sources ?? []).filter(failsForLong);
  const more = others.length === 0 ? '' : ` and ${pluralize(others.length, 'other sensor')}`;
  return `${first?.name ?? 'a sensor'}${more} delivered no reading for 10 min or more (agent sensors)`;
}

function lastVersion({ lastOutcome }: StatusReport): string {
  return lastOutcome?.version ?? 'a version';
}

/**
 * Returns the headline while an operation runs. A trial keeps its own headline, since an operator may want to end it.
 */
function headlineOfActivity(activity: Activity, report: StatusReport): Message {
  const { process, operation, board, doneBytes, totalBytes } = activity;
  if (report.phase === 'trial' || report.phase === 'rolling-back') return headlineOfPhase(report);
  if (operation === undefined) return { tone: 'strong', text: `Busy: ${process} is running.` };
  const title = activity.phase === undefined ? operationWords[operation].doing : phaseTitles[activity.phase];
  const what = board === undefined ? title : `${title} ${board}`;
  const isMeasured = doneBytes !== undefined && totalBytes !== undefined && totalBytes > 0;
  const far = isMeasured ? `, ${formatBytes(doneBytes)} of ${formatBytes(totalBytes)}` : '';
  const advice = operation === 'update' ? 'To follow it: agent --update-now' : undefined;
  return { tone: 'strong', text: `Busy: ${what}${far}.`, advice };
}

function headlineOfPhase(report: StatusReport): Message {
  const { phase, downloaded, idleReason, rebootDeferral: wait, activity, daemon } = report;
  switch (phase) {
    case 'staging': {
      const there =
        downloaded === undefined
          ? ''
          : `; ${formatBytes(downloaded.bytes)} of ${formatBytes(downloaded.totalBytes)} downloaded`;
      return { tone: 'attention', text: `Interrupted: ${idleReason}${there}.` };
    }
    case 'staged':
      if (wait !== undefined)
        return {
          tone: 'attention',
          text: daemon
            ? 'An update is staged. It starts in its reboot window, or with: agent reboot'
            : 'An update is staged, but the daemon is not running to start it in its reboot window. To start it: agent reboot',
        };
      if (report.booted === undefined)
        return {
          tone: 'attention',
          text: `An update is staged and waits for its trial; ${whatResumesIt(daemon)}.`,
        };
      return { tone: 'attention', text: `An update is staged; ${bootTrigger(report)}` };
    case 'trial':
      return {
        tone: 'attention',
        text: 'A new version is on trial. It is committed if its health checks pass, else rolled back.',
      };
    case 'rolling-back':
      if (activity !== undefined || daemon)
        return { tone: 'attention', text: 'Busy: rolling back to the previous version.' };
      return {
        tone: 'attention',
        text: 'Attention: the rollback to the previous version is not finished. To finish it: agent --update-now',
      };
    default:
      return { tone: 'strong', text: `Busy: ${phase}.` };
  }
}

/** Returns how an update of packages and boards resumes. Without slots, a boot does not start it. */
function whatResumesIt(hasDaemon: boolean): string {
  return hasDaemon ? 'it resumes at the next check' : 'to resume it: agent --update-now';
}

/**
 * Describes how to start the staged slot. Once the bootloader is set to boot it, any reboot starts it; before that,
 * only a reboot by the agent.
 */
function bootTrigger({ booted, slotStates }: StatusReport): string {
  const isArmed =
    slotStates === undefined ||
    Object.entries(slotStates).some(([slot, { bootsNext }]) => bootsNext && slot !== booted);
  return isArmed ? 'it starts at the next boot: agent reboot' : 'to start it: agent reboot';
}

/** Describes a hold and its end. */
export function describeHold({ until }: HoldReport, when: When): string {
  return until === undefined
    ? 'On hold: updates are paused until agent resume.'
    : `On hold: updates are paused until ${formatTime(until, when) ?? until}.`;
}
