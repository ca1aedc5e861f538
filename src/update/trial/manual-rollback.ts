import type { AgentError } from '../../system/errors.ts';
import { UpdateError } from '../errors.ts';
import { evidenceOfHistory } from '../evidence.ts';
import { restoresTo } from '../journal/places.ts';
import type { Attempt, FirmwareRecord, Installed, UpdateState } from '../journal/state.ts';
import type { InstallOutcome } from '../outcome.ts';
import { isoTime } from '../policy/install-request.ts';
import type { UpdatePorts } from '../policy/install-request.ts';
import { withdraw } from '../policy/withdraw.ts';
import type { InPlaceTarget, SlotName } from '../ports.ts';
import { unverifiedFirmware } from '../running-version.ts';
import { otherSlot } from '../slot.ts';
import { verifyPreviousSlot } from '../whole-slot.ts';
import type { PreviousSlotContents } from '../whole-slot.ts';
import { requireRollbackTarget } from './rollback-target.ts';
import { evaluateTrial, startTrial } from './trial.ts';

export interface RollbackOptions {
  /** false: stop before the reboot. */
  readonly reboot: boolean;
  /** Leave boards that cannot go back as they are. */
  readonly force: boolean;
}

/**
 * Boots the other slot, if it is known to boot, as a trial like any other; the boards follow when it is healthy.
 * Partitions that nothing writes to are read first, and must hold what was verified. Throws before anything is changed.
 */
export async function startRollback(
  slot: SlotName,
  flags: RollbackOptions,
  ports: UpdatePorts,
  signal: AbortSignal,
): Promise<InstallOutcome> {
  const { journal, newAttemptId, clock, settings } = ports;
  const { installed, previous, slots, beforeBoards } = journal.state;
  if (!flags.force) await refuseRevoked(slot, ports);
  if (beforeBoards !== undefined) {
    const boards = await boardsToRestore(installed, beforeBoards, flags.force, ports);
    if (boards.length > 0)
      return goBackOnBoards(
        { before: beforeBoards, boards, booted: otherSlot(slot), forced: flags.force },
        ports,
        signal,
      );
    if (!flags.force)
      throw nothing(`no ${hasBoards(ports) ? 'board' : 'package'} can go back to what it held before`, ports);
  }
  const hasSlots = [...ports.targets.values()].some(({ kind }) => kind === 'slots');
  requireRollbackTarget(hasSlots ? slot : undefined, { slots });
  const before = previous?.slot === slot ? previous : undefined;
  const { read, unverified } = await findAndDoubt(slot, before, ports, signal);
  const boards = await boardsToRestore(installed, before, flags.force, ports);
  const firmware = firmwareBefore(before, boards, ports);
  const evidence = evidenceOfHistory(firmware, slot, slots[slot], read);
  const version = before?.version ?? { name: unnamed(slot, journal.state) };
  await overruleStaging(ports);
  const begun = { id: newAttemptId(), version, by: 'rollback', startedAt: isoTime(clock) } as const;
  const attempt = { ...begun, ...marksOf(flags, unverified) };
  const { phase } = await journal.append({
    type: 'rollback-staged',
    attempt,
    slot,
    firmware,
    trials: settings.trials,
  });
  return startTrial(phase, { evidence, reboot: flags.reboot }, ports, signal);
}

/** Returns a name for the content of a slot: no update has written the slot, or the journal was lost. */
function unnamed(slot: SlotName, { slots, forgot }: UpdateState): string {
  const [record] = Object.values(slots[slot].records);
  if (record !== undefined) return record.version;
  return forgot === true ? 'an unknown version' : 'the factory image';
}

function marksOf({ reboot, force }: RollbackOptions, unverified: readonly string[]): Partial<Attempt> {
  return {
    rebootByHand: !reboot,
    ...(force && { forced: true }),
    ...(unverified.length > 0 && { unverified: [...unverified] }),
  };
}

/** Ends a staging that is of no use any more, since the person goes back to its slot, or the slot stays as it is. */
async function overruleStaging(ports: UpdatePorts): Promise<void> {
  if (ports.journal.state.phase.kind !== 'staging') return;
  await withdraw('overridden', 'a person went back instead', ports);
}

/**
 * Finds what the slot holds. A firmware that is not vouched for any more is not refused to a person who goes back to
 * it, but it is reported.
 */
async function findAndDoubt(
  slot: SlotName,
  before: Installed | undefined,
  ports: UpdatePorts,
  signal: AbortSignal,
): Promise<PreviousSlotContents> {
  const found = await verifyPreviousSlot(slot, ports, signal);
  const doubt = before && (await ports.distrusted?.(before, signal));
  const unverified = doubt === undefined ? found.unverified : [...found.unverified, `the release (it ${doubt})`];
  if (unverified.length > 0)
    ports.log.warn({}, `slot ${slot}, which runs next, was not verified again: ${unverified.join(', ')}`);
  return { ...found, unverified };
}

/**
 * Refuses to go back to a release that a list revokes, by itself or by its key, unless a person forces it. What the
 * bootloader falls back to cannot be refused.
 */
async function refuseRevoked(slot: SlotName, { journal, revoked }: UpdatePorts): Promise<void> {
  const { beforeBoards, previous } = journal.state;
  const goal = beforeBoards ?? (previous?.slot === slot ? previous : undefined);
  const why = goal && (await revoked?.(goal));
  if (why === undefined) return;
  throw new UpdateError('release-revoked', `release ${goal?.version.name} ${why}`, {
    advice: 'install another release; --force goes back all the same',
  });
}

/** What the slot holds, as far as it is known, and what to do with the boards. */
function firmwareBefore(before: Installed | undefined, boards: readonly Payload[], ports: UpdatePorts): FirmwareRecord {
  const unknown = unverifiedFirmware(ports);
  const { digest, signedBy, provides, payloads } = before ?? unknown;
  const partitions = payloads.filter(({ kind }) => kind === 'slots');
  const known = partitions.length > 0 ? partitions : unknown.payloads;
  return { digest, signedBy, provides, payloads: [...known, ...boards] };
}

interface BoardsBack {
  readonly before: Installed;
  /** The boards' tasks; at least one. */
  readonly boards: Payload[];
  readonly booted: SlotName;
  readonly forced: boolean;
}

/**
 * Goes back after an update of boards alone: the boards are on trial like in any other update of boards, and the slot
 * stays.
 */
async function goBackOnBoards(
  { before, boards, booted, forced }: BoardsBack,
  ports: UpdatePorts,
  signal: AbortSignal,
): Promise<InstallOutcome> {
  const { journal, newAttemptId, clock } = ports;
  await overruleStaging(ports);
  const begun = { id: newAttemptId(), version: before.version, by: 'rollback', startedAt: isoTime(clock) } as const;
  const attempt = { ...begun, ...(forced && { forced }) };
  await journal.append({ type: 'boards-back-staged', attempt, slot: booted, boards });
  return evaluateTrial(ports, signal);
}

type Payload = FirmwareRecord['payloads'][number];

/**
 * The boards that one of the two versions has flashed. What was there before the newer payload is restored; if the
 * newer version is the goal, its payload is flashed again.
 */
async function boardsToRestore(
  installed: Installed | undefined,
  previous: Installed | undefined,
  force: boolean,
  ports: UpdatePorts,
): Promise<Payload[]> {
  const { targets, log } = ports;
  const tasks: Payload[] = [];
  for (const target of targets.values()) {
    if (target.kind === 'slots') continue;
    const task = await boardTask(target, payloadFor(target, installed), payloadFor(target, previous));
    if (task === 'stays') continue;
    if (task !== 'cannot') tasks.push(task);
    else if (force) log.warn({ board: target.name }, `${target.name} stays as it is: what it held before is not kept`);
    else
      throw nothing(
        `what ${target.kind === 'mcu' ? 'the board' : 'the package'} ${target.name} held before is not kept any more`,
        ports,
      );
  }
  return tasks;
}

async function boardTask(
  target: InPlaceTarget,
  now: Payload | undefined,
  before: Payload | undefined,
): Promise<Payload | 'stays' | 'cannot'> {
  if (now?.digest === before?.digest) return 'stays';
  if (before !== undefined && (await target.keeps(before.digest)).payload) return before;
  if (now === undefined) return 'stays';
  if (!restoresTo(now, before)) return 'cannot';
  const kept = await target.keeps(now.digest);
  // the payload itself is needed, too, in case the rollback fails
  if (!kept.before || !kept.payload) return 'cannot';
  return { ...now, back: true, ...(now.order !== undefined && { order: -now.order }) };
}

function payloadFor({ name }: InPlaceTarget, installed: Installed | undefined): Payload | undefined {
  return installed?.payloads.find(({ kind, target }) => kind !== 'slots' && target === name);
}

/** The advice of the code is about boards. */
function nothing(message: string, ports?: Pick<UpdatePorts, 'targets'>): AgentError {
  const isWithoutBoards = ports !== undefined && !hasBoards(ports);
  return new UpdateError(
    'no-previous-version',
    message,
    isWithoutBoards ? { advice: 'agent status shows what runs' } : {},
  );
}

function hasBoards({ targets }: Pick<UpdatePorts, 'targets'>): boolean {
  return [...targets.values()].some(({ kind }) => kind === 'mcu');
}
