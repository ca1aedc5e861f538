import { restoresTo } from '../journal/places.ts';
import type { FirmwareRecord, Installed, PhaseOf } from '../journal/state.ts';
import { isoTime } from '../policy/install-request.ts';
import type { UpdatePorts } from '../policy/install-request.ts';
import type { InPlaceTarget } from '../ports.ts';

type Payload = FirmwareRecord['payloads'][number];

/**
 * Guarantee `one-version`: records that a committed version was abandoned, with the tasks of its boards. A rollback
 * without a slot follows. Returns undefined if no version was abandoned.
 */
export async function beginBoardSync(ports: UpdatePorts): Promise<PhaseOf<'rolling-back'> | undefined> {
  const { journal, newAttemptId, clock, targets } = ports;
  const { fellFrom, installed, phase } = journal.state;
  if (fellFrom === undefined || (phase.kind !== 'idle' && phase.kind !== 'staging')) return undefined;
  const boards: Payload[] = [];
  const stay: string[] = [];
  for (const target of targets.values()) {
    const way = target.kind === 'mcu' ? await wayBack(target, fellFrom, installed) : 'stays';
    if (way === 'cannot') stay.push(target.name);
    // the phase undoes its payloads: one with `back` is flashed, any other restored
    else if (way !== 'stays') boards.push('flash' in way ? { ...way.flash, back: true } : way.restore);
  }
  const at = isoTime(clock);
  const attempt = { id: newAttemptId(), version: fellFrom.version, by: 'service', startedAt: at } as const;
  return (await journal.append({ type: 'slot-abandoned', attempt, boards, stay, at })).phase;
}

export interface EarlierBoards {
  /** The payloads of a trial that brings the boards back. */
  readonly payloads: readonly Payload[];
  /** The boards without a backup. */
  readonly stay: readonly InPlaceTarget[];
}

/** Plans the rollback of the boards and packages from one version to an earlier one. */
export async function planEarlierBoards(
  from: Installed | undefined,
  to: Installed | undefined,
  { targets }: Pick<UpdatePorts, 'targets'>,
): Promise<EarlierBoards> {
  const payloads: Payload[] = [];
  const stay: InPlaceTarget[] = [];
  for (const target of targets.values()) {
    const way = target.kind === 'slots' ? 'stays' : await wayBack(target, from, to);
    if (target.kind === 'slots' || way === 'stays') continue;
    if (way !== 'cannot' && 'flash' in way) payloads.push(way.flash);
    // the payload itself is needed, too, in case the rollback fails
    else if (way === 'cannot' || !(await target.keeps(way.restore.digest)).payload) stay.push(target);
    else {
      const { order } = way.restore;
      payloads.push({ ...way.restore, back: true, ...(order !== undefined && { order: -order }) });
    }
  }
  return { payloads, stay };
}

/**
 * `flash`: the payload that the earlier version had is kept. `restore`: this payload is undone, since it replaced what
 * the earlier version had.
 */
type Way = { readonly flash: Payload } | { readonly restore: Payload } | 'stays' | 'cannot';

async function wayBack(target: InPlaceTarget, from: Installed | undefined, to: Installed | undefined): Promise<Way> {
  const [now, then] = [from, to].map((version) =>
    version?.payloads.find((payload) => payload.kind !== 'slots' && payload.target === target.name),
  );
  if (now?.digest === then?.digest) return 'stays';
  if (now !== undefined && restoresTo(now, then) && (await target.keeps(now.digest)).before) return { restore: now };
  if (then !== undefined && (await target.keeps(then.digest)).payload) return { flash: then };
  return now === undefined ? 'stays' : 'cannot';
}
