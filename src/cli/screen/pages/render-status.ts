import { stateOf, troublesOf } from '../../../control/gateway-state.ts';
import type { Trouble } from '../../../control/gateway-state.ts';
import type {
  Activity,
  BrokerReport,
  InstalledReport,
  FollowedName,
  OutcomeReport,
  StandstillReport,
  StatusReport,
} from '../../../control/reports.ts';
import { bytes } from '../bytes.ts';
import { renderRows, type Row } from '../layout.ts';
import type { Page } from '../page.ts';
import type { Tone } from '../paint.ts';
import { phaseTitles } from '../progress-line.ts';
import { distance, localTime } from '../time.ts';
import { installedNote } from './installed-note.ts';
import { describeBoard } from './render-boards.ts';
import { summarizeSpool } from './render-spool.ts';

const maxQuarantineShown = 5;

/** What a technician needs first stands first: whether something is to be done. */
export function renderStatus(report: StatusReport, page: Page): string {
  const headline = headlineOf(report, page);
  const rows: readonly Row[] = [
    { label: 'State', paragraphs: [headline.text], tone: headline.tone },
    { label: 'Warning', paragraphs: report.warnings, tone: 'attention' },
    { label: 'Hold', paragraphs: report.hold === undefined ? [] : [liftedBy(report.hold, page)], tone: 'attention' },
    { label: 'Reboot', paragraphs: rebootWait(report.rebootWait, page), tone: 'attention' },
    { label: 'Consent', paragraphs: hookWait(report.hookWait, page), tone: 'attention' },
    { label: 'Slowed', paragraphs: slowed(report.throttle, page) },
    { label: 'Installed', paragraphs: describeInstalled(report.installed, page) },
    { label: 'Running', paragraphs: running(report) },
    { label: 'Now', paragraphs: [report.idleReason] },
    { label: 'Next look', paragraphs: [nextLook(report, page)] },
    { label: 'Last update', ...lastUpdate(report.lastOutcome, page) },
    { label: 'Previous', paragraphs: previous(report.previous) },
    { label: 'Boards', paragraphs: report.boards.map((board) => describeBoard(board, page)) },
    { label: 'Quarantine', paragraphs: quarantine(report, page) },
    { label: 'To report', paragraphs: toReport(report) },
    {
      label: 'Service',
      paragraphs: service(report, page),
      tone: report.service.lastError === undefined ? undefined : 'attention',
    },
    {
      label: 'Broker',
      paragraphs: broker(report.service.broker),
      tone: report.service.broker?.problem === undefined ? undefined : 'attention',
    },
    { label: 'Spool', ...(report.telemetry === undefined ? { paragraphs: [] } : summarizeSpool(report.telemetry)) },
    { label: 'Device', paragraphs: [device(report)] },
    { label: 'Agent', paragraphs: [agent(report)] },
  ];
  return renderRows(rows, page);
}

interface Headline {
  readonly tone: Tone;
  readonly text: string;
}

function headlineOf(report: StatusReport, page: Page): Headline {
  const troubles = report.troubles ?? troublesOf(report);
  const state = report.state ?? stateOf({ ...report, troubles });
  if (report.activity !== undefined) return headlineOfActivity(report.activity, report);
  if (report.phase !== 'idle' && state !== 'broken' && state !== 'attention') return headlineOfPhase(report);
  if (troubles.length > 0) {
    const text = `Attention: ${troubles.map((trouble) => troubleTexts[trouble](report)).join('; ')}.`;
    return { tone: state === 'broken' ? 'bad' : 'attention', text };
  }
  if (report.hold !== undefined) return { tone: 'attention', text: describeHold(report.hold, page) };
  if (report.installed === undefined) return { tone: 'good', text: 'Ready. Nothing was installed by this agent yet.' };
  return { tone: 'good', text: `All is well: ${report.installed.versionName} is installed.` };
}

type DescribeTrouble = (report: StatusReport) => string;

const troubleTexts: Readonly<Record<Trouble, DescribeTrouble>> = {
  'board-half-written': ({ boards }) => {
    const half = boards.filter(({ writing }) => writing !== undefined).map(({ name }) => name);
    return `${half.join(', ')} is half written and runs nothing`;
  },
  'update-impossible': ({ idleReason }) => `no update is possible (${idleReason})`,
  'journal-lost': () => 'the record of updates was unreadable and was set aside',
  'no-daemon': () => 'no daemon runs, so nobody follows the service',
  'daemon-silent': () => 'the daemon does not answer, so nobody follows the service',
  'not-activated': () => 'not activated yet',
  'last-attempt-failed': (report) => `the update to ${lastVersion(report)} failed`,
  'last-attempt-refused': (report) => `${lastVersion(report)} was refused`,
  'last-attempt-rolled-back': (report) => `${lastVersion(report)} was rolled back`,
  'service-failing': () => 'the last call to the service failed',
};

function lastVersion({ lastOutcome }: StatusReport): string {
  return lastOutcome?.version ?? 'a version';
}

/** Somebody is at work. A trial is what a person may want to end, however busy the agent is with it. */
function headlineOfActivity(activity: Activity, report: StatusReport): Headline {
  const { who, operation, board, doneBytes, totalBytes } = activity;
  if (report.phase === 'trial' || report.phase === 'rolling-back') return headlineOfPhase(report);
  if (operation === undefined) return { tone: 'strong', text: `Busy: ${who} is at work.` };
  const title = activity.phase === undefined ? operationTitles[operation] : phaseTitles[activity.phase];
  const what = board === undefined ? title : `${title} ${board}`;
  const isMeasured = doneBytes !== undefined && totalBytes !== undefined && totalBytes > 0;
  const far = isMeasured ? `, ${bytes(doneBytes)} of ${bytes(totalBytes)}` : '';
  const follow = operation === 'update' ? ' Follow it: agent --update-now' : '';
  return { tone: 'strong', text: `Busy: ${what}${far}.${follow}` };
}

const operationTitles: Readonly<Record<FollowedName, string>> = {
  update: 'looking for an update',
  install: 'installing a file',
  commit: 'keeping the firmware on trial',
  rollback: 'going back',
  cancel: 'cancelling',
  flash: 'flashing',
  restore: 'flashing',
};

function headlineOfPhase(report: StatusReport): Headline {
  const { phase, arrived, idleReason, rebootWait: wait, activity, daemon } = report;
  switch (phase) {
    case 'staging': {
      const there = arrived === undefined ? '' : `; ${bytes(arrived.bytes)} of ${bytes(arrived.totalBytes)} are there`;
      return { tone: 'attention', text: `Interrupted: ${idleReason}${there}.` };
    }
    case 'staged':
      if (wait !== undefined)
        return {
          tone: 'attention',
          text: 'A new firmware is staged. It starts in its reboot window, or with: agent reboot',
        };
      return { tone: 'attention', text: `A new firmware is staged; ${howItStarts(report)}` };
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

/** Any reboot starts what the bootloader would boot next; what it was not told of yet, only the agent does. */
function howItStarts({ booted, slotStates }: StatusReport): string {
  const isArmed =
    slotStates === undefined || Object.entries(slotStates).some(([slot, { next }]) => next && slot !== booted);
  return isArmed ? 'it starts with the next boot: agent reboot' : 'to start it: agent reboot';
}

/** What a person holds, and its end. */
export function describeHold({ until }: StandstillReport, page: Page): string {
  return until === undefined
    ? 'Held: nothing is installed until agent resume.'
    : `Held: nothing is installed until ${moment(until, page) ?? until}.`;
}

function liftedBy({ reason, until }: StandstillReport, page: Page): string {
  const why = reason === undefined ? 'no reason was given' : reason;
  const end = until === undefined ? '' : `, until ${moment(until, page) ?? until}`;
  const early = until === undefined ? '' : ' before that';
  return `${why}${end}; root and thing-operators lift it${early}: agent resume`;
}

function rebootWait(wait: StatusReport['rebootWait'], page: Page): readonly string[] {
  if (wait === undefined) return [];
  const until = moment(wait.until, page);
  const when = until === undefined ? '' : `; the agent waits until ${until}`;
  return [`${wait.reason}: [update] reboot_window${when}`, 'root and thing-operators need not wait: agent reboot'];
}

function hookWait(wait: StatusReport['hookWait'], page: Page): readonly string[] {
  if (wait === undefined) return [];
  const next = `asked again ${moment(wait.until, page) ?? wait.until}`;
  return [`${wait.reason}; ${next}`, 'agent --update-now asks now; with --force nobody is asked'];
}

function slowed(throttle: StatusReport['throttle'], page: Page): readonly string[] {
  if (throttle === undefined) return [];
  const until = moment(throttle.until, page);
  const rate = `the download to at most ${bytes(throttle.bytesPerSecond)}/s`;
  return [`${rate}${until === undefined ? '' : ` until ${until}`}: [service] max_rate`];
}

/** What stands in a slot, since when, and who vouched for it. */
export function describeInstalled(installed: InstalledReport | undefined, page: Page): readonly string[] {
  if (installed === undefined) return ['nothing by this agent yet'];
  const { versionName, versionId, slot, signedBy, digest, at, factory } = installed;
  const id = versionId === undefined || versionId === versionName ? '' : ` (id ${versionId})`;
  const place = slot === undefined ? '' : ` in slot ${slot}`;
  if (factory === true) return [`${versionName}${id}${place}`, `came with the image, seen ${moment(at, page)}`];
  const trust =
    signedBy === undefined
      ? 'unsigned'
      : `signed by ${signedBy.startsWith('sha256:') ? signedBy.slice('sha256:'.length).slice(0, 10) : signedBy}`;
  return [`${versionName}${id}${place}, ${shortDigest(digest)}`, `${trust}, since ${moment(at, page)}`];
}

function shortDigest(digest: string): string {
  return digest.slice(0, 'sha256:'.length + 12);
}

export function moment(iso: string | undefined, page: Page): string | undefined {
  if (iso === undefined) return undefined;
  const away = distance(iso, page.nowMs);
  return `${localTime(iso, page.localOffset)}${away === undefined ? '' : ` (${away})`}`;
}

/** While one is under way, the one before it is in the past. */
function nextLook(report: StatusReport, page: Page): string {
  const { daemon, nextLookAt } = report;
  if (!daemon) return `none: ${isSilent(report) ? 'the daemon does not answer' : 'no daemon runs'}`;
  if (nextLookAt !== undefined && Date.parse(nextLookAt) <= page.nowMs) return 'now';
  return moment(nextLookAt, page) ?? 'none: there is no schedule';
}

function running({ booted, slots }: StatusReport): readonly string[] {
  const details = Object.entries(slots ?? {}).map(([slot, detail]) => `${slot} is ${detail}`);
  const all = booted === undefined ? details : [`slot ${booted}`, ...details];
  return all.length === 0 ? [] : [all.join('; ')];
}

function lastUpdate(last: OutcomeReport | undefined, page: Page): Pick<Row, 'paragraphs' | 'tone'> {
  if (last === undefined) return { paragraphs: ['none yet'] };
  const when = moment(last.at, page);
  if (last.outcome === 'installed')
    return { paragraphs: [`${last.version} installed, ${when}`, ...installedNote(last.reason)] };
  return {
    paragraphs: [`${last.version} ${last.outcome.replace('-', ' ')}, ${when}`, `${last.reason} (${last.code})`],
    tone: 'attention',
  };
}

function previous(installed: InstalledReport | undefined): readonly string[] {
  if (installed === undefined) return [];
  const place = installed.slot === undefined ? '' : ` in slot ${installed.slot}`;
  return [`${installed.versionName}${place}; to go back to it: agent rollback`];
}

function quarantine({ quarantine: held }: StatusReport, page: Page): readonly string[] {
  const shown = held.slice(0, maxQuarantineShown).map(({ version, digest, reason, until }) => {
    const end = until === undefined ? undefined : distance(until, page.nowMs);
    const told = `${version} (${shortDigest(digest)}): ${reason}`;
    return `${told}; ends ${end === undefined ? '' : `${end}, or `}by agent forget`;
  });
  const rest = held.length - maxQuarantineShown;
  return rest > 0 ? [...shown, `and ${rest} more`] : shown;
}

function toReport({ pendingSwitch, pendingReports, droppedReports }: StatusReport): readonly string[] {
  const lines: string[] = [];
  if (pendingSwitch !== undefined) lines.push(`the service was not told yet that version ${pendingSwitch} runs`);
  if (pendingReports > 0)
    lines.push(`${pendingReports} outcome${pendingReports === 1 ? '' : 's'} wait for the service`);
  if (droppedReports > 0)
    lines.push(
      `${droppedReports} older one${droppedReports === 1 ? ' was' : 's were'} dropped to make room; the service is told how many`,
    );
  return lines;
}

function service({ daemon, service: { url, lastError, lastContactAt } }: StatusReport, page: Page): readonly string[] {
  const never = daemon ? 'not reached since the start' : 'not asked by this command';
  const contact = moment(lastContactAt, page);
  const reached = contact === undefined ? never : `reached ${contact}`;
  return lastError === undefined ? [`${url}, ${reached}`] : [lastError, `${url}, ${reached}`];
}

function broker(status: BrokerReport | undefined): readonly string[] {
  if (status === undefined) return [];
  const { url, state, problem, ignored } = status;
  const counted = Object.entries(ignored).filter(([, count]) => count > 0);
  const details = counted.map(([kind, count]) => `${count} ${kind}`).join(', ');
  const messages = counted.length === 0 ? '' : `; messages ignored: ${details}`;
  const line = `${url}, ${state}${messages}`;
  return problem === undefined ? [line] : [`${problem.message} (${problem.code})`, line];
}

function device({ serialNumber, thingId }: StatusReport): string {
  const thing = thingId === undefined ? 'not activated: agent activate' : `thing ${thingId}`;
  return `${serialNumber ?? 'no serial number'}, ${thing}`;
}

function agent(report: StatusReport): string {
  const { agentVersion, daemon } = report;
  if (isSilent(report)) return `${agentVersion}, the daemon does not answer: systemctl restart thing-agent`;
  return daemon ? `${agentVersion}, the daemon runs` : `${agentVersion}, no daemon runs: systemctl start thing-agent`;
}

function isSilent({ troubles }: StatusReport): boolean {
  return troubles?.includes('daemon-silent') ?? false;
}
