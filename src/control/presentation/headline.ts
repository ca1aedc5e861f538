import { failsForLong, stateOf, troublesOf } from '../gateway-state.ts';
import type { Problem } from '../gateway-state.ts';
import type { Activity, HoldReport, StatusReport } from '../reports.ts';
import { formatBytes } from './bytes.ts';
import { pluralize } from './counted.ts';
import { operationWords } from './operation-words.ts';
import { phaseTitles } from './phases.ts';
import { isByHand } from './rows/package-rows.ts';
import type { Message } from './rows/row.ts';
import { formatTime } from './time.ts';
import type { When } from './time.ts';

/** The sentence that a person needs first. */
export function headlineOf(report: StatusReport, when: When): Message {
  const troubles = report.problems ?? troublesOf(report);
  const state = report.state ?? stateOf({ ...report, problems: troubles });
  if (report.activity !== undefined) return headlineOfActivity(report.activity, report);
  if (troubles.includes('daemon-starting') && state === 'busy')
    return { tone: 'attention', text: 'Starting: the daemon does not answer yet.' };
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
  const names = packages.filter(isByHand).map(({ package: known }) => known);
  if (names.length === 0) return { tone: 'good', text: `All is well: ${version} is installed.` };
  const text = `${version} is installed, but ${names.join(' and ')} ${names.length === 1 ? 'was' : 'were'} exchanged by hand since: see Packages.`;
  return { tone: 'attention', text };
}

type DescribeTrouble = (report: StatusReport) => string;

const troubleTexts: Readonly<Record<Problem, DescribeTrouble>> = {
  'board-half-written': ({ boards }) => {
    const half = boards.filter(({ writing }) => writing !== undefined).map(({ name }) => name);
    return `${half.join(', ')} is partially flashed and runs nothing`;
  },
  'update-impossible': ({ idleReason }) => `no update is possible (${idleReason})`,
  'config-unusable': () => 'the configuration file cannot be used, so the next start of the agent would fail',
  'journal-lost': () => 'the record of updates could not be read, and what was under way is not known',
  'trust-list-damaged': () => 'what was revoked is not known any more, so nothing is installed',
  'no-trusted-key': () => 'no trusted key can be used, so nothing can be installed',
  'no-daemon': () => 'no daemon runs, so nobody follows the service',
  'daemon-starting': () => 'the daemon is starting',
  'daemon-unresponsive': () => 'the daemon does not answer, so nobody follows the service',
  'release-revoked': () => 'what is installed was revoked',
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

/** The headline while an operation runs. A trial keeps its own headline, since a person may want to end it. */
function headlineOfActivity(activity: Activity, report: StatusReport): Message {
  const { process, operation, board, doneBytes, totalBytes } = activity;
  if (report.phase === 'trial' || report.phase === 'rolling-back') return headlineOfPhase(report);
  if (operation === undefined) return { tone: 'strong', text: `Busy: ${process} is at work.` };
  const title = activity.phase === undefined ? operationWords[operation].doing : phaseTitles[activity.phase];
  const what = board === undefined ? title : `${title} ${board}`;
  const isMeasured = doneBytes !== undefined && totalBytes !== undefined && totalBytes > 0;
  const far = isMeasured ? `, ${formatBytes(doneBytes)} of ${formatBytes(totalBytes)}` : '';
  const advice = operation === 'update' ? 'Follow it: agent --update-now' : undefined;
  return { tone: 'strong', text: `Busy: ${what}${far}.`, advice };
}

function headlineOfPhase(report: StatusReport): Message {
  const { phase, downloaded, idleReason, rebootDeferral: wait, activity, daemon } = report;
  switch (phase) {
    case 'staging': {
      const there =
        downloaded === undefined
          ? ''
          : `; ${formatBytes(downloaded.bytes)} of ${formatBytes(downloaded.totalBytes)} are there`;
      return { tone: 'attention', text: `Interrupted: ${idleReason}${there}.` };
    }
    case 'staged':
      if (wait !== undefined)
        return {
          tone: 'attention',
          text: daemon
            ? 'A new firmware is staged. It starts in its reboot window, or with: agent reboot'
            : 'A new firmware is staged, and no daemon runs that would start it in its reboot window; to start it: agent reboot',
        };
      if (report.booted === undefined)
        return {
          tone: 'attention',
          text: `A new firmware is staged, and waits for its trial; ${whatResumesIt(daemon)}.`,
        };
      return { tone: 'attention', text: `A new firmware is staged; ${bootTrigger(report)}` };
    case 'trial':
      return { tone: 'attention', text: 'A new firmware is on trial. It is kept when it is healthy, else undone.' };
    case 'rolling-back':
      if (activity !== undefined || daemon)
        return { tone: 'attention', text: 'Busy: going back to the previous firmware.' };
      return {
        tone: 'attention',
        text: 'Attention: going back to the previous firmware is not finished; agent --update-now goes on with it.',
      };
    default:
      return { tone: 'strong', text: `Busy: ${phase}.` };
  }
}

/** Without slots no boot starts what was cut off before its trial: packages and boards are settled by the agent. */
function whatResumesIt(hasDaemon: boolean): string {
  return hasDaemon ? 'the next look goes on with it' : 'agent --update-now goes on with it';
}

/**
 * Says what starts the staged slot. Once the bootloader is told to boot it, any reboot does; before that, only one by
 * the agent.
 */
function bootTrigger({ booted, slotStates }: StatusReport): string {
  const isArmed =
    slotStates === undefined ||
    Object.entries(slotStates).some(([slot, { bootsNext }]) => bootsNext && slot !== booted);
  return isArmed ? 'it starts with the next boot: agent reboot' : 'to start it: agent reboot';
}

/** Describes a hold and its end. */
export function describeHold({ until }: HoldReport, when: When): string {
  return until === undefined
    ? 'Held: nothing is installed until agent resume.'
    : `Held: nothing is installed until ${formatTime(until, when) ?? until}.`;
}
