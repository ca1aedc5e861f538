import type { HistoryReport } from '../../history.ts';
import { formatBytes } from '../bytes.ts';
import { installedNote } from '../installed-note.ts';
import { listOf } from '../outcome.ts';
import { formatDuration, localTime } from '../time.ts';
import type { When } from '../time.ts';
import type { Row, Tone } from './row.ts';

export type HistoryEntry = HistoryReport['attempts'][number];

/** So many characters of an id distinguish it from the others. */
const SHORT_ID = 8;

export function attemptRows({ attempts }: HistoryReport, when: When): readonly Row[] {
  return attempts.map((told) => ({
    label: told.attempt.slice(0, SHORT_ID),
    paragraphs: describeAttempt(told, when),
    tone: toneOf(told),
  }));
}

/** The steps of an attempt, one row for each. */
export function stepRows({ steps }: HistoryEntry, when: When): readonly Row[] {
  return steps.map(({ at, step, detail }) => {
    const title = stepTitles.get(step) ?? step;
    return {
      label: localTime(at, when.localOffset, 'seconds'),
      paragraphs: [detail === undefined ? title : `${title}: ${detail}`],
    };
  });
}

export function describeAttempt(told: HistoryEntry, when: When): readonly string[] {
  const { startedAt, endedAt, reason, code } = told;
  const at = startedAt ?? endedAt;
  const lines = [`${at === undefined ? '' : `${localTime(at, when.localOffset)}  `}${whatOf(told)}: ${endOf(told)}`];
  if (isTakenList(told)) return [...lines, ...aboutOf(told)];
  if (told.outcome === 'installed') lines.push(...installedNote(reason));
  else if (reason !== undefined && reason !== '') lines.push(`${reason} (${code ?? 'unknown'})`);
  return [...lines, ...aboutOf(told)];
}

/** Whether the attempt installed a list of keys and revocations. Such a list changes no slot. */
function isTakenList({ trustList, steps }: HistoryEntry): boolean {
  return trustList !== undefined || steps.some(({ step }) => step === 'trust-list-applied');
}

function whatOf(told: HistoryEntry): string {
  const { version, from, trustList } = told;
  if (trustList !== undefined) return listOf(trustList);
  if (isTakenList(told)) return `the list of keys and revocations ${version}`;
  return from === undefined || from === version ? version : `${from} to ${version}`;
}

/** Describes who asked for the attempt, and what it cost. */
function aboutOf(told: HistoryEntry): readonly string[] {
  const about = [...orderOf(told), ...costsOf(told)].join('; ');
  return about === '' ? [] : [about];
}

function endOf(told: HistoryEntry): string {
  const { inProgress, outcome, durationSeconds } = told;
  if (inProgress === true) return 'under way, or interrupted: agent status';
  if (outcome === undefined) return 'how it ended is not known';
  const how = isTakenList(told) ? 'in effect' : outcome.replace('-', ' ');
  return `${how}${durationSeconds === undefined ? '' : ` after ${formatDuration(durationSeconds * 1_000)}`}`;
}

function orderOf({ by, manual, forced }: HistoryEntry): readonly string[] {
  const force = forced === true ? ', with --force' : '';
  if (by === 'file') return [`a file of a person${force}`];
  if (by === 'rollback') return [`a person went back${force}`];
  if (by !== 'service') return [];
  return [manual === true ? `a person asked for what the service names${force}` : `the service names it${force}`];
}

function costsOf({ fetchedBytes, writtenBytes, reusedBytes, deltaBaseBytes }: HistoryEntry): readonly string[] {
  return [
    ...(fetchedBytes === undefined ? [] : [`fetched ${formatBytes(fetchedBytes)}`]),
    ...(deltaBaseBytes === undefined ? [] : [`made of what runs ${formatBytes(deltaBaseBytes)}`]),
    ...(writtenBytes === undefined ? [] : [`written ${formatBytes(writtenBytes)}`]),
    ...(reusedBytes === undefined || reusedBytes === 0 ? [] : [`there already ${formatBytes(reusedBytes)}`]),
  ];
}

function toneOf({ outcome }: HistoryEntry): Tone | undefined {
  return outcome === undefined || outcome === 'installed' ? undefined : 'attention';
}

/** The titles of steps. A step that only a newer agent knows is shown by its name. */
const stepTitles: ReadonlyMap<string, string> = new Map([
  ['staging-started', 'transfer began'],
  ['staging-paused', 'transfer was interrupted'],
  ['slot-opened', 'writing began'],
  ['staged', 'verified'],
  ['rollback-staged', 'going back was prepared'],
  ['boards-back-staged', 'going back was prepared'],
  ['trial-armed', 'boots next, on trial'],
  ['reboot-asked', 'reboot'],
  ['trial-missed', 'another reboot came first'],
  ['health-check-started', 'runs on trial, and is judged'],
  ['approved', 'healthy'],
  ['committed', 'kept'],
  ['board-write-started', 'is being written'],
  ['board-flashed', 'is written'],
  ['rollback-started', 'goes back'],
  ['slot-abandoned', 'the bootloader went back'],
  ['restoring', 'what stood before is put back'],
  ['board-restored', 'stands as before'],
  ['rolled-back', 'went back'],
  ['failed', 'failed'],
  ['withdrawn', 'given up'],
  ['cancelled', 'a person cancelled it'],
  ['found-installed', 'is what runs already'],
  ['trust-list-applied', 'a list of keys and revocations took effect'],
  ['recovered', 'the journal was not understood'],
]);
