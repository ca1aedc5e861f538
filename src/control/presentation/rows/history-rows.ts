import type { HistoryReport } from '../../history.ts';
import { formatBytes } from '../bytes.ts';
import { installedNote } from '../installed-note.ts';
import { listOf, resultWord } from '../outcome.ts';
import { formatDuration, formatTime } from '../time.ts';
import type { When } from '../time.ts';
import type { Row, Tone } from './row.ts';

export type HistoryEntry = HistoryReport['attempts'][number];

/** The length of a short id. */
const SHORT_ID = 8;

export function attemptRows({ attempts }: HistoryReport, when: When): readonly Row[] {
  return attempts.map((told) => ({
    label: told.attempt.slice(0, SHORT_ID),
    paragraphs: describeAttempt(told, when),
    tone: toneOf(told),
  }));
}

/** Returns one row for each of these steps of an attempt. */
export function stepRows(told: HistoryEntry, when: When, steps = told.steps): readonly Row[] {
  return steps.map(({ at, step, detail }) => {
    const code = ends.has(step) && told.code !== undefined ? ` (${told.code})` : '';
    const title = `${titleOf(step, told)}${code}`;
    const more = step === 'staging-started' ? ': target ' : ': ';
    return {
      label: formatTime(at, when, 'log'),
      paragraphs: [detail === undefined ? title : `${title}${more}${detail}`],
    };
  });
}

function titleOf(step: string, { code, outcome, steps }: HistoryEntry): string {
  if (code === 'cancelled') return cancelledTitles.get(step) ?? stepTitles.get(step) ?? step;
  if (step !== 'failed' || outcome !== 'refused') return stepTitles.get(step) ?? step;
  return steps.some((one) => writing.has(one.step)) ? 'refused' : 'refused, before anything was written';
}

export function describeAttempt(told: HistoryEntry, when: When): readonly string[] {
  const { startedAt, endedAt, reason, code } = told;
  const at = startedAt ?? endedAt;
  const lines = [`${at === undefined ? '' : `${formatTime(at, when)}  `}${whatOf(told)}: ${endOf(told)}`];
  if (isTrustList(told)) return [...lines, ...aboutOf(told)];
  if (told.outcome === 'installed') lines.push(...installedNote(reason));
  else if (reason !== undefined && reason !== '') lines.push(`${reason} (${code ?? 'unknown'})`);
  return [...lines, ...aboutOf(told)];
}

/** True if the attempt installed a trust list, which changes no slot. */
function isTrustList({ trustList, steps }: HistoryEntry): boolean {
  return trustList !== undefined || steps.some(({ step }) => step === 'trust-list-applied');
}

function whatOf(told: HistoryEntry): string {
  const { version, from, trustList } = told;
  if (trustList !== undefined) return listOf(trustList);
  if (isTrustList(told)) return `trust list ${version}`;
  return from === undefined || from === version ? version : `${from} to ${version}`;
}

/** Describes the trigger and the traffic of an attempt. */
function aboutOf(told: HistoryEntry): readonly string[] {
  const about = [...orderOf(told), ...costsOf(told)].join('; ');
  return about === '' ? [] : [about];
}

function endOf(told: HistoryEntry): string {
  const { inProgress, outcome, durationSeconds } = told;
  if (inProgress === true) return 'in progress, or interrupted (see agent status)';
  if (outcome === undefined) return 'unknown result';
  const how = isTrustList(told) ? 'in effect' : resultWord({ outcome, code: told.code });
  return `${how}${durationSeconds === undefined ? '' : ` after ${formatDuration(durationSeconds * 1_000)}`}`;
}

function orderOf({ by, manual, forced }: HistoryEntry): readonly string[] {
  const force = forced === true ? ', with --force' : '';
  if (by === 'file') return [`a file, installed manually${force}`];
  if (by === 'rollback') return [`a manual rollback${force}`];
  if (by !== 'service') return [];
  return [manual === true ? `assigned by the service, started manually${force}` : `assigned by the service${force}`];
}

function costsOf({ fetchedBytes, writtenBytes, reusedBytes, deltaBaseBytes }: HistoryEntry): readonly string[] {
  return [
    ...(fetchedBytes === undefined ? [] : [`downloaded ${formatBytes(fetchedBytes)}`]),
    ...(deltaBaseBytes === undefined ? [] : [`from the running slot ${formatBytes(deltaBaseBytes)}`]),
    ...(writtenBytes === undefined ? [] : [`written ${formatBytes(writtenBytes)}`]),
    ...(reusedBytes === undefined || reusedBytes === 0 ? [] : [`unchanged ${formatBytes(reusedBytes)}`]),
  ];
}

function toneOf({ outcome }: HistoryEntry): Tone | undefined {
  return outcome === undefined || outcome === 'installed' ? undefined : 'attention';
}

/** The steps that end an attempt without an installation. */
const ends: ReadonlySet<string> = new Set(['failed', 'withdrawn', 'rolled-back', 'cancelled']);

/** The steps after which something was written. */
const writing: ReadonlySet<string> = new Set(['slot-opened', 'board-write-started']);

/** The titles of the steps of an update that an operator cancelled before it booted. */
const cancelledTitles: ReadonlyMap<string, string> = new Map([
  ['rollback-started', 'discarding'],
  ['rolled-back', 'discarded'],
]);

/** The events of the journal that are steps of an attempt, by their titles. A step of a newer agent is shown by its code. */
export const stepTitles: ReadonlyMap<string, string> = new Map([
  ['staging-started', 'staging started'],
  ['staging-paused', 'download interrupted'],
  ['slot-opened', 'writing started'],
  ['staged', 'verified'],
  ['rollback-staged', 'rollback prepared'],
  ['trial-armed', 'boots next, on trial'],
  ['reboot-asked', 'reboot'],
  ['trial-missed', 'another reboot happened first'],
  ['health-check-started', 'on trial, health checks running'],
  ['approved', 'healthy'],
  ['committed', 'committed'],
  ['board-write-started', 'board: writing'],
  ['board-flashed', 'board: written'],
  ['rollback-started', 'rollback started'],
  ['slot-abandoned', 'the bootloader fell back'],
  ['restoring', 'restoring the previous image'],
  ['board-restored', 'previous image restored'],
  ['rolled-back', 'rolled back'],
  ['failed', 'failed'],
  ['withdrawn', 'withdrawn'],
  ['cancelled', 'cancelled by an operator'],
  ['found-installed', 'already running'],
  ['trust-list-applied', 'trust list in effect'],
  ['recovered', 'the journal could not be read'],
]);
