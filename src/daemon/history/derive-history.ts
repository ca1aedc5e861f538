import type { HistoryAttempt, HistoryReport, HistoryStep } from '../../control/history.ts';
import { stepTitles } from '../../control/presentation/rows/history-rows.ts';
import { describeError } from '../../system/errors.ts';
import { isPlausible } from '../../system/time/wall-clock.ts';
import { CANCELLED_BEFORE_BOOT } from '../../update/journal/endings.ts';
import { figures } from '../../update/journal/schema.ts';
import type { EventType, Attempt, Outcome, UpdateState } from '../../update/journal/state.ts';

/** Derives from the events of the journal what the history notes. Pure. */

const MAX_STEPS = 24;
const KEPT_FIRST = 4;
const MAX_TEXT = 300;

export interface JournalChange {
  readonly event: { readonly type: EventType };
  readonly before: UpdateState;
  readonly after: UpdateState;
  /** ISO 8601 */
  readonly at: string;
}

/** The attempts after an event; the same array if the event concerns no attempt. */
export function applyEvent(
  attempts: readonly HistoryAttempt[],
  happened: JournalChange,
  hasSlots = true,
): readonly HistoryAttempt[] {
  const { event, before, after, at } = happened;
  const ended = [...newOutcomes(before, after), ...calledOff(happened)];
  const attempt = attemptIn(after) ?? attemptIn(before);
  if (attempt === undefined || (ended.length === 0 && !stepTitles.has(event.type))) return attempts;
  let told = attempts;
  const superseded = attemptIn(before);
  for (const one of superseded === undefined || superseded.id === attempt.id ? [attempt] : [superseded, attempt]) {
    told = updateAttempt(told, one, (known) => ({ ...known, ...factsOf(one, event) }), before);
  }
  if (stepTitles.has(event.type)) {
    const step = { at, step: event.type, ...detailOf(happened, hasSlots) };
    told = updateAttempt(told, attempt, (known) => withStep(known, step), before);
  }
  for (const outcome of ended) told = withEnd(told, outcome);
  return told;
}

/**
 * Adds the ends that only the journal knows: an agent without a history was at work, or the power failed in between.
 */
export function withMissingOutcomes(
  attempts: readonly HistoryAttempt[],
  state: UpdateState,
): readonly HistoryAttempt[] {
  const known = [...state.reports, ...(state.lastOutcome === undefined ? [] : [state.lastOutcome])];
  return known.reduce((told, outcome) => {
    const found = told.find(({ attempt }) => attempt === outcome.attempt);
    return found?.outcome === undefined ? withEnd(told, outcome) : told;
  }, attempts);
}

export function historyOf(attempts: readonly HistoryAttempt[], forgotten: number, state: UpdateState): HistoryReport {
  const current = attemptIn(state);
  const ended = withMissingOutcomes(attempts, state);
  const told =
    current === undefined
      ? ended
      : updateAttempt(ended, current, (known) => ({ ...known, ...factsOf(current) }), state);
  return {
    discarded: forgotten,
    attempts: told.map((one) => (one.attempt === current?.id ? open(one, current) : closed(one))),
  };
}

type Reported = HistoryReport['attempts'][number];

/** An attempt in progress, without its result, which the journal has. */
function open(
  { outcome: _outcome, code: _code, reason: _reason, endedAt: _endedAt, ...rest }: HistoryAttempt,
  current: Attempt,
): Reported {
  return { ...rest, ...current.figures, inProgress: true };
}

function closed(attempt: HistoryAttempt): Reported {
  const tookSeconds = secondsBetween(attempt.startedAt, attempt.endedAt);
  return tookSeconds === undefined ? attempt : { ...attempt, durationSeconds: tookSeconds };
}

/** The detail of a step, from members that several events have. */
function detailOf({ event, before }: JournalChange, hasSlots: boolean): Pick<HistoryStep, 'detail'> {
  if (event.type === 'trial-armed' && before.phase.kind === 'trial') return { detail: 'again, after an interruption' };
  if (event.type === 'rollback-started' && 'reason' in event && 'code' in event) {
    return { detail: text(`${String(event.reason)} (${String(event.code)})`) };
  }
  if ('target' in event) return { detail: text(String(event.target)) };
  return hasSlots && 'slot' in event ? { detail: `slot ${String(event.slot)}` } : {};
}

function factsOf(attempt: Attempt, event: object = {}): Partial<HistoryAttempt> {
  const { version, by, manual, forced, startedAt } = attempt;
  const found = 'figures' in event ? figures.safeParse(event.figures).data : undefined;
  const { fetchedBytes, writtenBytes, reusedBytes, deltaBaseBytes } = found ?? attempt.figures ?? {};
  const list = 'number' in event && typeof event.number === 'number' ? event.number : undefined;
  const name = text('name' in event && typeof event.name === 'string' ? event.name : version.name);
  return withoutGaps({
    version: name,
    versionId: version.id,
    by,
    manual,
    forced,
    startedAt,
    fetchedBytes,
    writtenBytes,
    reusedBytes,
    deltaBaseBytes,
    trustList: list,
  });
}

function updateAttempt(
  attempts: readonly HistoryAttempt[],
  { id, version, startedAt }: Attempt,
  change: (known: HistoryAttempt) => HistoryAttempt,
  { installed }: UpdateState,
): readonly HistoryAttempt[] {
  if (attempts.some(({ attempt }) => attempt === id)) {
    return attempts.map((known) => (known.attempt === id ? change(known) : known));
  }
  const from = installed === undefined ? {} : { from: text(installed.version.name) };
  return [...attempts, change({ attempt: id, version: version.name, startedAt, ...from, steps: [] })];
}

/** Adds a step. Of too many steps, the first few and the last ones are kept. */
function withStep(known: HistoryAttempt, step: HistoryStep): HistoryAttempt {
  const all = [...known.steps, step];
  const steps = all.length <= MAX_STEPS ? all : [...all.slice(0, KEPT_FIRST), ...all.slice(KEPT_FIRST + 1)];
  return { ...known, steps };
}

function withEnd(attempts: readonly HistoryAttempt[], ended: Outcome): readonly HistoryAttempt[] {
  const { attempt, outcome, code, at } = ended;
  const end = { version: text(ended.version), endedAt: at, outcome, code, reason: text(ended.reason) };
  if (!attempts.some((known) => known.attempt === attempt)) return [...attempts, { attempt, ...end, steps: [] }];
  return attempts.map((known) => (known.attempt === attempt ? { ...known, ...end } : known));
}

function newOutcomes(before: UpdateState, after: UpdateState): readonly Outcome[] {
  const last = after.lastOutcome === undefined || after.lastOutcome === before.lastOutcome ? [] : [after.lastOutcome];
  const added = after.reports.filter(
    (report) => !before.reports.includes(report) && report.attempt !== after.lastOutcome?.attempt,
  );
  return [...added, ...last];
}

/**
 * The end of a rollback that an operator cancelled. It is not reported, since nothing has changed for any other party.
 */
function calledOff({ event, before: { phase }, at }: JournalChange): readonly Outcome[] {
  if (event.type !== 'rolled-back' || phase.kind !== 'rolling-back' || phase.attempt.by !== 'rollback') return [];
  const { attempt, code, reason } = phase;
  if (code !== CANCELLED_BEFORE_BOOT.code) return [];
  return [{ attempt: attempt.id, version: attempt.version.name, outcome: 'failed', code, reason, at }];
}

function attemptIn({ phase }: UpdateState): Attempt | undefined {
  if (phase.kind === 'lost') return phase.interrupted;
  return 'attempt' in phase ? phase.attempt : undefined;
}

function secondsBetween(from: string | undefined, to: string | undefined): number | undefined {
  const [fromMs, toMs] = [Date.parse(from ?? ''), Date.parse(to ?? '')];
  if (!isPlausible(fromMs) || !isPlausible(toMs) || toMs < fromMs) return undefined;
  return Math.round((toMs - fromMs) / 1_000);
}

/** A text as for a log: short and without secrets. */
function text(value: string): string {
  return describeError(value).slice(0, MAX_TEXT);
}

function withoutGaps(facts: Partial<HistoryAttempt>): Partial<HistoryAttempt> {
  return Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined));
}
