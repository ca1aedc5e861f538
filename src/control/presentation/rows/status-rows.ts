import type { BrokerReport, InstalledReport, OutcomeReport, StatusReport } from '../../reports.ts';
import { formatBytes } from '../bytes.ts';
import { pluralize } from '../counted.ts';
import { describeHold, duringCheck, headlineOf } from '../headline.ts';
import { installedNote } from '../installed-note.ts';
import { nextStepOf } from '../next-step.ts';
import { listOf, resultOf } from '../outcome.ts';
import { formatDuration, formatTime } from '../time.ts';
import type { When } from '../time.ts';
import { describeBoard } from './board-rows.ts';
import { describePackage, isManual } from './package-rows.ts';
import { summarizeQueue } from './queue-rows.ts';
import type { Row } from './row.ts';

const maxQuarantineShown = 5;

/**
 * Returns the rows of a status. The first one answers what is running and whether something is wrong, the second one
 * whether you need to act. A reason in the first row is not repeated below.
 */
export function statusRows(report: StatusReport, when: When): readonly Row[] {
  const { tone, text: headline } = headlineOf(report, when);
  const isSaid = (reason: string): boolean => headline.toLowerCase().includes(reason.toLowerCase());
  const toDo = report.toDo ?? nextStepOf(report);
  return [
    { label: 'State', paragraphs: [headline], tone },
    { label: 'To do', paragraphs: [toDo.text], tone: toDo.isNeeded ? 'attention' : undefined },
    { label: 'Warning', paragraphs: report.warnings, tone: 'attention' },
    { label: 'Hold', paragraphs: hold(report, when, isSaid), tone: 'attention' },
    { label: 'Reboot', paragraphs: rebootWait(report, when), tone: 'attention' },
    { label: 'Consent', paragraphs: hookWait(report.hookDeferral, when), tone: 'attention' },
    { label: 'Rate limit', paragraphs: slowed(report.throttle, when) },
    ...slotRows(report, when),
    { label: 'Installed', paragraphs: installed(report, when) },
    {
      label: 'Trust list',
      paragraphs: report.trustList === undefined ? [] : [`number ${report.trustList.number} is in effect`],
    },
    { label: 'Updates', paragraphs: idleReason(report).filter((text) => !isSaid(text)) },
    { label: 'Next check', paragraphs: nextCheck(report, when) },
    { label: 'Last update', ...lastUpdate(report, when, isSaid) },
    { label: 'Previous', paragraphs: previous(report) },
    { label: 'Packages', ...packages(report.packages) },
    { label: 'Boards', paragraphs: report.boards.map((board) => describeBoard(board, when)) },
    { label: 'Quarantine', paragraphs: quarantine(report, when, isSaid) },
    { label: 'To report', paragraphs: toReport(report) },
    {
      label: 'Service',
      paragraphs: service(report, when).filter((text) => !isSaid(text.replace(duringCheck, ''))),
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

function hold({ hold: held }: StatusReport, when: When, isSaid: IsSaid): readonly string[] {
  if (held === undefined || isSaid(describeHold(held, when))) return [];
  return [`${describeHold(held, when)}; to resume them: agent resume`];
}

/** The reason for not installing anything, unless the gateway is up to date or a failed attempt is the reason. */
function idleReason({
  idleReason: reason,
  idleCode,
  lastOutcome,
  quarantine: blocked,
}: StatusReport): readonly string[] {
  if (idleCode === 'no-daemon' || idleCode === 'daemon-unresponsive') return [];
  const isOfLast = idleCode === 'quarantined' && blocked.some(({ version }) => version === lastOutcome?.version);
  return isOfLast ? [] : [reason];
}

function rebootWait({ rebootDeferral: wait, daemon }: StatusReport, when: When): readonly string[] {
  if (wait === undefined) return [];
  const end = wait.until === undefined || !daemon ? '' : `; waiting until ${formatTime(wait.until, when)}`;
  return [`${wait.reason}: [update] reboot_window${end}`];
}

function hookWait(wait: StatusReport['hookDeferral'], when: When): readonly string[] {
  return wait === undefined ? [] : [`${wait.reason}; next call ${formatTime(wait.until, when)}`];
}

function slowed(throttle: StatusReport['throttle'], when: When): readonly string[] {
  if (throttle === undefined) return [];
  const until = throttle.until === undefined ? '' : ` until ${formatTime(throttle.until, when)}`;
  return [`downloads use at most ${formatBytes(throttle.bytesPerSecond)}/s${until}: [service] max_rate`];
}

/** Returns a row for each slot: its version and its part, and the origin of the committed version. */
function slotRows(report: StatusReport, when: When): readonly Row[] {
  const { slots = {}, slotStates = {}, installed: committed } = report;
  return Object.entries(slots).map(([slot, detail]) => {
    const part = partOf(slot, report);
    const lacks = part === noFallback ? `, so slot ${report.booted} has no fallback` : '';
    const content = part === undefined || lacks !== '' ? '' : `, ${part}`;
    const text = `${contentOf(slotStates[slot])}${content}; ${detail}${lacks}`;
    const isKnown = committed?.slot === slot && committed.factory !== true;
    return {
      label: `Slot ${slot}`,
      paragraphs: [text, ...(isKnown ? [provenance(committed, when)] : [])],
      tone: part === noFallback ? 'attention' : undefined,
    };
  });
}

const fallback = 'fallback (agent rollback)';
const noFallback = 'no fallback';

type SlotState = NonNullable<StatusReport['slotStates']>[string];

function contentOf(state: SlotState | undefined): string {
  if (state?.isPartial === true) return 'partially written';
  const { version, isFactory = false } = state ?? {};
  if (version === undefined) return isFactory ? 'factory image' : 'unknown version';
  return isFactory ? `${version} (factory image)` : version;
}

/** Returns the part of a slot: it runs, is the fallback of the running slot, or is not bootable. */
function partOf(slot: string, { booted, slotStates, running, phase }: StatusReport): string | undefined {
  if (booted === undefined) return undefined;
  if (slot === booted) return running?.isOnTrial === true ? 'running on trial' : 'running';
  const { bootable = false, bootsNext = false } = slotStates?.[slot] ?? {};
  if (phase === 'staged') return 'staged';
  if (bootsNext) return undefined;
  return bootable ? fallback : noFallback;
}

/** Returns the content, signature and time of an installed version. */
function provenance({ versionId, versionName, digest, signedBy, keyName, at }: InstalledReport, when: When): string {
  const id = versionId === undefined || versionId === versionName ? '' : `id ${versionId}, `;
  const trust = signedBy === undefined ? 'unsigned' : `signed by ${keyName ?? `key ${shortDigest(signedBy)}`}`;
  const content = digest === 'unknown' ? 'not verified' : `${shortDigest(digest)}, ${trust}`;
  return `${id}${content}, since ${formatTime(at, when)}`;
}

const UNKNOWN = ['unknown'];

/** The installed version of a gateway without slots. */
function installed(report: StatusReport, when: When): readonly string[] {
  if (report.slots !== undefined) return [];
  return isUnknown(report) && report.installed === undefined ? UNKNOWN : describeInstalled(report.installed, when);
}

function isUnknown({ phase, problems }: StatusReport): boolean {
  return phase === 'lost' || problems?.includes('journal-lost') === true;
}

/** Describes the installed version with slot, time and signing key. */
export function describeInstalled(known: InstalledReport | undefined, when: When): readonly string[] {
  if (known === undefined) return ['no update by this agent yet'];
  const { versionName, slot, at, factory } = known;
  const place = slot === undefined ? '' : ` in slot ${slot}`;
  if (factory === true) return [`${versionName}${place}`, `factory image, first seen ${formatTime(at, when)}`];
  return [`${versionName}${place}`, provenance(known, when)];
}

function shortDigest(digest: string): string {
  return digest.slice(0, 'sha256:'.length + 12);
}

/** Describes the next check. While a check or an update runs, the recorded time of the next one has passed. */
function nextCheck({ daemon, nextCheckAt, phase, checks }: StatusReport, when: When): readonly string[] {
  if (!daemon || nextCheckAt === undefined) return daemon ? ['none: no schedule'] : [];
  const due = phase === 'idle' ? 'now' : 'after this update';
  const show = (at: string): string => (Date.parse(at) <= when.nowMs ? due : formatTime(at, when));
  const retry = checks?.retryAt && `interrupted work is finished ${show(checks.retryAt)}`;
  return [...(retry === undefined ? [] : [retry]), show(nextCheckAt)];
}

type IsSaid = (reason: string) => boolean;

function lastUpdate(report: StatusReport, when: When, isSaid: IsSaid): Pick<Row, 'paragraphs' | 'tone'> {
  const { lastOutcome: last } = report;
  if (last === undefined) return { paragraphs: isUnknown(report) ? UNKNOWN : ['none yet'] };
  const at = formatTime(last.at, when);
  if (last.trustList !== undefined) return { paragraphs: [`${listOf(last.trustList)}: in effect, ${at}`] };
  if (last.outcome === 'installed')
    return { paragraphs: [`${resultOf(last)}, ${at}`, ...installedNote(last.reason), ...fetched(last)] };
  const isCancelled = last.code === 'cancelled';
  return {
    paragraphs: [
      `${resultOf(last)}, ${at}`,
      ...(isSaid(last.reason) ? [] : [`${last.reason} (${last.code})`]),
      ...fetched(last),
    ],
    tone: isCancelled ? undefined : 'attention',
  };
}

function fetched({ fetchedBytes }: OutcomeReport): readonly string[] {
  return fetchedBytes === undefined ? [] : [`downloaded ${formatBytes(fetchedBytes)}`];
}

/** The target of a rollback that is not in the other slot. */
function previous({ previous: before, slots, booted }: StatusReport): readonly string[] {
  if (before === undefined || (slots !== undefined && before.slot !== booted)) return [];
  return [`${before.versionName}; to roll back to it: agent rollback`];
}

function packages(told: StatusReport['packages'] = []): Pick<Row, 'paragraphs' | 'tone'> {
  return { paragraphs: told.map(describePackage), tone: told.some(isManual) ? 'attention' : undefined };
}

function quarantine({ quarantine: held }: StatusReport, when: When, isSaid: IsSaid): readonly string[] {
  const shown = held.slice(0, maxQuarantineShown).map(({ version, digest, reason, until }) => {
    const end = until === undefined ? '' : ` until ${formatTime(until, when)}`;
    const why = isSaid(reason) ? '' : `: ${reason}`;
    return `${version} (${shortDigest(digest)}) blocked${end}${why}; to end this: agent unblock ${version}`;
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
  const timeOf = (iso: string | undefined): string | undefined => iso && formatTime(iso, when);
  const [refused, contact] = [timeOf(told.lastRefusalAt), timeOf(told.lastContactAt)];
  const never = daemon ? 'not reached since the start' : 'not checked by this command';
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
  const ran = measuredMs === undefined ? '' : ` ${formatDuration(measuredMs)} ago`;
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

function device({ label, serialNumber, thingId }: StatusReport): string {
  const thing = thingId === undefined ? 'not activated' : `Thing ID ${thingId}`;
  return [...(label === undefined ? [] : [label]), serialNumber ?? 'no serial number', thing].join(', ');
}

function agent(report: StatusReport): string {
  const { agentVersion, daemon } = report;
  return `${agentVersion}, ${daemon ? 'the daemon is running' : describeAbsence(report)}`;
}

function describeAbsence({ problems }: StatusReport): string {
  if (problems?.includes('daemon-starting') === true) return 'the daemon is starting';
  return problems?.includes('daemon-unresponsive') === true
    ? 'the daemon is not responding'
    : 'the daemon is not running';
}
