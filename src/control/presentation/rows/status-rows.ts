import type { BrokerReport, InstalledReport, OutcomeReport, HoldReport, StatusReport } from '../../reports.ts';
import { formatBytes } from '../bytes.ts';
import { pluralize } from '../counted.ts';
import { headlineOf } from '../headline.ts';
import { installedNote } from '../installed-note.ts';
import { listOf } from '../outcome.ts';
import { formatRelativeTime, formatDuration, formatTime } from '../time.ts';
import type { When } from '../time.ts';
import { describeBoard } from './board-rows.ts';
import { describePackage, isManual } from './package-rows.ts';
import type { Row, Message } from './row.ts';
import { summarizeQueue } from './spool-rows.ts';

const maxQuarantineShown = 5;

/** Returns the rows of a status. The first row shows whether you need to act. */
export function statusRows(report: StatusReport, when: When): readonly Row[] {
  const headline = headlineOf(report, when);
  return [
    { label: 'State', paragraphs: [sentenceOf(headline)], tone: headline.tone },
    { label: 'Warning', paragraphs: report.warnings, tone: 'attention' },
    {
      label: 'Hold',
      paragraphs: report.hold === undefined ? [] : [describeHoldEnd(report.hold, when)],
      tone: 'attention',
    },
    { label: 'Reboot', paragraphs: rebootWait(report, when), tone: 'attention' },
    { label: 'Consent', paragraphs: hookWait(report.hookDeferral, when), tone: 'attention' },
    { label: 'Rate limit', paragraphs: slowed(report.throttle, when) },
    { label: 'Installed', paragraphs: installed(report, when) },
    {
      label: 'Trust list',
      paragraphs: report.trustList === undefined ? [] : [`number ${report.trustList.number} is in effect`],
    },
    { label: 'Running', paragraphs: running(report) },
    { label: 'Now', paragraphs: [report.idleReason] },
    { label: 'Next check', paragraphs: [nextCheck(report, when)] },
    { label: 'Last update', ...lastUpdate(report, when) },
    { label: 'Previous', paragraphs: previous(report.previous) },
    { label: 'Packages', ...packages(report.packages) },
    { label: 'Boards', paragraphs: report.boards.map((board) => describeBoard(board, when)) },
    { label: 'Quarantine', paragraphs: quarantine(report, when) },
    { label: 'To report', paragraphs: toReport(report) },
    {
      label: 'Service',
      paragraphs: service(report, when),
      tone: report.service.lastError === undefined ? undefined : 'attention',
    },
    {
      label: 'Broker',
      paragraphs: broker(report.service.broker),
      tone: report.service.broker?.problem === undefined ? undefined : 'attention',
    },
    { label: 'Traffic', paragraphs: traffic(report.traffic) },
    { label: 'Written', paragraphs: written(report.written) },
    { label: 'Queue', ...(report.telemetry === undefined ? { paragraphs: [] } : summarizeQueue(report.telemetry)) },
    { label: 'Device', paragraphs: [device(report)] },
    { label: 'Agent', paragraphs: [agent(report)] },
  ];
}

/** Returns a message with the next command to run. */
function sentenceOf({ text, advice }: Message): string {
  return advice === undefined ? text : `${text} ${advice}`;
}

function describeHoldEnd({ reason, until }: HoldReport, when: When): string {
  const why = reason === undefined ? 'no reason given' : reason;
  const end = until === undefined ? '' : `, until ${formatTime(until, when) ?? until}`;
  const early = until === undefined ? '' : ' before that';
  return `${why}${end}; to resume${early}: agent resume`;
}

function rebootWait({ rebootDeferral: wait, daemon }: StatusReport, when: When): readonly string[] {
  if (wait === undefined) return [];
  const until = formatTime(wait.until, when);
  const end = until === undefined || !daemon ? '' : `; waiting until ${until}`;
  return [`${wait.reason}: [update] reboot_window${end}`, 'to reboot now: agent reboot'];
}

function hookWait(wait: StatusReport['hookDeferral'], when: When): readonly string[] {
  if (wait === undefined) return [];
  const next = `next call ${formatTime(wait.until, when) ?? wait.until}`;
  return [`${wait.reason}; ${next}`, 'to call the hook now: agent --update-now; to skip it, add --force'];
}

function slowed(throttle: StatusReport['throttle'], when: When): readonly string[] {
  if (throttle === undefined) return [];
  const until = formatTime(throttle.until, when);
  const rate = `downloads use at most ${formatBytes(throttle.bytesPerSecond)}/s`;
  return [`${rate}${until === undefined ? '' : ` until ${until}`}: [service] max_rate`];
}

const UNKNOWN = ['unknown'];

function installed(report: StatusReport, when: When): readonly string[] {
  return isUnknown(report) && report.installed === undefined ? UNKNOWN : describeInstalled(report.installed, when);
}

function isUnknown({ phase }: StatusReport): boolean {
  return phase === 'lost';
}

/** Describes the installed version with slot, time and signing key. */
export function describeInstalled(installed: InstalledReport | undefined, when: When): readonly string[] {
  if (installed === undefined) return ['no update by this agent yet'];
  const { versionName, versionId, slot, signedBy, digest, at, factory } = installed;
  const id = versionId === undefined || versionId === versionName ? '' : ` (id ${versionId})`;
  const place = slot === undefined ? '' : ` in slot ${slot}`;
  if (factory === true) return [`${versionName}${id}${place}`, `factory image, first seen ${formatTime(at, when)}`];
  const trust =
    signedBy === undefined
      ? 'unsigned'
      : `signed by ${signedBy.startsWith('sha256:') ? signedBy.slice('sha256:'.length).slice(0, 10) : signedBy}`;
  return [`${versionName}${id}${place}, ${shortDigest(digest)}`, `${trust}, since ${formatTime(at, when)}`];
}

function shortDigest(digest: string): string {
  return digest.slice(0, 'sha256:'.length + 12);
}

/** Describes the next check. While a check runs, the recorded time of the next one has passed. */
function nextCheck(report: StatusReport, when: When): string {
  const { daemon, nextCheckAt } = report;
  if (!daemon) return `none: ${describeAbsence(report)}`;
  if (nextCheckAt !== undefined && Date.parse(nextCheckAt) <= when.nowMs) return 'now';
  return formatTime(nextCheckAt, when) ?? 'none: no schedule';
}

function running({ booted, slots }: StatusReport): readonly string[] {
  const details = Object.entries(slots ?? {}).map(([slot, detail]) => `${slot} is ${detail}`);
  const all = booted === undefined ? details : [`slot ${booted}`, ...details];
  return all.length === 0 ? [] : [all.join('; ')];
}

function lastUpdate(report: StatusReport, when: When): Pick<Row, 'paragraphs' | 'tone'> {
  const { lastOutcome: last } = report;
  if (last === undefined) return { paragraphs: isUnknown(report) ? UNKNOWN : ['none yet'] };
  const at = formatTime(last.at, when);
  if (last.trustList !== undefined) return { paragraphs: [`${listOf(last.trustList)}: in effect, ${at}`] };
  if (last.outcome === 'installed')
    return { paragraphs: [`${last.version} installed, ${at}`, ...installedNote(last.reason), ...fetched(last)] };
  return {
    paragraphs: [
      `${last.version} ${last.outcome.replace('-', ' ')}, ${at}`,
      `${last.reason} (${last.code})`,
      ...fetched(last),
    ],
    tone: 'attention',
  };
}

function fetched({ fetchedBytes }: OutcomeReport): readonly string[] {
  return fetchedBytes === undefined ? [] : [`downloaded ${formatBytes(fetchedBytes)}`];
}

function previous(installed: InstalledReport | undefined): readonly string[] {
  if (installed === undefined) return [];
  const place = installed.slot === undefined ? '' : ` in slot ${installed.slot}`;
  return [`${installed.versionName}${place}; to roll back to it: agent rollback`];
}

function packages(told: StatusReport['packages'] = []): Pick<Row, 'paragraphs' | 'tone'> {
  return { paragraphs: told.map(describePackage), tone: told.some(isManual) ? 'attention' : undefined };
}

function quarantine({ quarantine: held }: StatusReport, when: When): readonly string[] {
  const shown = held.slice(0, maxQuarantineShown).map(({ version, digest, reason, until }) => {
    const end = until === undefined ? undefined : formatRelativeTime(until, when.nowMs);
    const failed = `${version} (${shortDigest(digest)}): ${reason}`;
    return end === undefined ? `${failed}; blocked until agent unblock` : `${failed}; ends ${end}, or by agent unblock`;
  });
  const rest = held.length - maxQuarantineShown;
  return rest > 0 ? [...shown, `and ${rest} more`] : shown;
}

function toReport({ pendingSwitch, pendingReports, droppedReports, trustList }: StatusReport): readonly string[] {
  const lines: string[] = [];
  const isList = pendingSwitch === trustList?.versionId;
  if (pendingSwitch !== undefined)
    lines.push(
      `not yet reported to the service: ${isList ? `trust list ${pendingSwitch} is in effect` : `${pendingSwitch} is running`}`,
    );
  if (pendingReports > 0) lines.push(`${pluralize(pendingReports, 'result')} of update attempts`);
  if (droppedReports > 0)
    lines.push(`${droppedReports} older result${droppedReports === 1 ? ' was' : 's were'} dropped to make room`);
  return lines;
}

function service({ daemon, service: told }: StatusReport, when: When): readonly string[] {
  const { url, lastError } = told;
  const refused = formatTime(told.lastRefusalAt, when);
  const never = daemon ? 'not reached since the start' : 'not checked by this command';
  const contact = formatTime(told.lastContactAt, when);
  const reached = contact === undefined ? never : `reached ${contact}`;
  const found = refused === undefined ? reached : `reached ${refused}, but replied with an error`;
  const before = refused === undefined || contact === undefined ? '' : `; last successful call ${contact}`;
  return lastError === undefined ? [`${url}, ${found}`] : [lastError, `${url}, ${found}${before}`];
}

const HOUR_MS = 3_600_000;

/** Describes the bytes sent to and received from the service, without local files. */
function traffic(told: StatusReport['traffic']): readonly string[] {
  if (told === undefined) return [];
  const { measuredMs, lastHour, lastDay, sinceStart } = told;
  const windows = [
    { ms: HOUR_MS, words: `${carried(lastHour)} in the last hour` },
    { ms: 24 * HOUR_MS, words: `${carried(lastDay)} in the last 24 h` },
  ];
  // A window longer than the daemon's uptime would claim traffic from before its start.
  const whole = windows.filter(({ ms }) => measuredMs === undefined || measuredMs >= ms).map(({ words }) => words);
  const ran = measuredMs === undefined ? '' : `, ${formatDuration(measuredMs)} ago`;
  return [[...whole, `${carried(sinceStart)} since the daemon started${ran}`].join('; ')];
}

/** Describes the bytes written to storage; after an hour, also how many that is in a day. */
function written(report: StatusReport['written']): readonly string[] {
  if (report === undefined) return [];
  const { bytes, measuredMs } = report;
  const perDay = measuredMs < HOUR_MS ? '' : `, ${formatBytes((bytes / measuredMs) * 24 * HOUR_MS)} a day`;
  return [`${formatBytes(bytes)} to storage since the daemon started ${formatDuration(measuredMs)} ago${perDay}`];
}

function carried({ sentBytes, receivedBytes }: NonNullable<StatusReport['traffic']>['lastHour']): string {
  return `${formatBytes(receivedBytes)} down and ${formatBytes(sentBytes)} up`;
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
  const thing = thingId === undefined ? 'not activated: agent activate' : `Thing ID ${thingId}`;
  return `${serialNumber ?? 'no serial number'}, ${thing}`;
}

function agent(report: StatusReport): string {
  const { agentVersion, daemon } = report;
  if (daemon) return `${agentVersion}, the daemon is running`;
  const absence = describeAbsence(report);
  const advice = adviceFor[absence];
  return `${agentVersion}, ${absence}${advice === undefined ? '' : `: ${advice}`}`;
}

type Absence = 'the daemon is starting' | 'the daemon is not responding' | 'the daemon is not running';

const adviceFor: Readonly<Record<Absence, string | undefined>> = {
  'the daemon is starting': undefined,
  'the daemon is not responding': 'systemctl restart thing-agent',
  'the daemon is not running': 'systemctl start thing-agent',
};

function describeAbsence({ problems }: StatusReport): Absence {
  if (problems?.includes('daemon-starting') === true) return 'the daemon is starting';
  return problems?.includes('daemon-unresponsive') === true
    ? 'the daemon is not responding'
    : 'the daemon is not running';
}
