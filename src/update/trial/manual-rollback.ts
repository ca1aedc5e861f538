import { planEarlierBoards } from '../boards/earlier-boards.ts';
import { UpdateError } from '../errors.ts';
import { evidenceOfHistory } from '../evidence.ts';
import type { Attempt, FirmwareRecord, Installed, PhaseOf, UpdateState } from '../journal/state.ts';
import type { InstallOutcome } from '../outcome.ts';
import { isoTime } from '../policy/install-request.ts';
import type { UpdatePorts } from '../policy/install-request.ts';
import { withdraw } from '../policy/withdraw.ts';
import type { SlotName } from '../ports.ts';
import { unverifiedFirmware } from '../running-version.ts';
import { otherSlot } from '../slot.ts';
import { verifyPreviousSlot } from '../whole-slot.ts';
import type { PreviousSlotContents } from '../whole-slot.ts';
import { evaluateTrial, startTrial } from './trial.ts';

export interface RollbackOptions {
  /** False: stop before the reboot. */
  readonly reboot: boolean;
  /** Leave boards without a backup as they are. */
  readonly force: boolean;
}

/**
 * Rolls back to the previous version, as a trial like any other. After an update of boards alone, the boards roll back
 * and the slot stays; otherwise the other slot is booted, if it is known to boot, and the boards follow when it is
 * healthy. Partitions that are never written to are read first, and must have their verified content. Throws before
 * anything is changed.
 */
export async function startRollback(
  slot: SlotName,
  flags: RollbackOptions,
  ports: UpdatePorts,
): Promise<InstallOutcome> {
  const { journal, targets } = ports;
  const { slots, earlier } = journal.state;
  const [next] = earlier;
  if (!flags.force) await refuseRevoked(next, ports);
  if (next?.slot === otherSlot(slot)) {
    const payloads = [...(await boardsFor(next, flags, ports))];
    if (payloads.length > 0) {
      const { digest, signedBy, provides, version } = next;
      const firmware = { digest, signedBy, provides, payloads };
      await stage({ slot: next.slot, firmware }, { version, ...marksOf(flags, []) }, ports);
      return evaluateTrial(ports);
    }
    if (!flags.force)
      throw new UpdateError('no-previous-version', 'no board or package has a previous image to restore');
  }
  const inSlot = earlier.find((version) => version.slot === slot);
  const hasSlots = [...targets.values()].some(({ kind }) => kind === 'slots');
  requireRollbackTarget(hasSlots ? slot : undefined, slots);
  const { read, unverified } = await findAndDoubt(slot, inSlot, ports);
  const firmware = firmwareBefore(inSlot, await boardsFor(inSlot, flags, ports), ports);
  const evidence = evidenceOfHistory(firmware, slot, slots[slot], read);
  const version = inSlot?.version ?? { name: unnamed(slot, journal.state) };
  const phase = await stage({ slot, firmware }, { version, ...marksOf(flags, unverified) }, ports);
  return startTrial(phase, { evidence, reboot: flags.reboot }, ports);
}

/** Returns a name for the content of a slot: no update has written the slot, or the journal was lost. */
function unnamed(slot: SlotName, { slots, forgot }: UpdateState): string {
  const versions = new Set(Object.values(slots[slot].records).map(({ version }) => version));
  if (versions.size > 0) return [...versions].toSorted().join(' and '); // a release for one partition keeps the others
  return forgot === true ? 'an unknown version' : 'the factory image';
}

/** Begins the attempt. An interrupted staging is of no use anymore: its slot is booted, or stays as it is. */
async function stage(
  target: Pick<PhaseOf<'staged'>, 'slot' | 'firmware'>,
  marks: Pick<Attempt, 'version'> & Partial<Attempt>,
  ports: UpdatePorts,
): Promise<PhaseOf<'staged'>> {
  const { journal, newAttemptId, clock, settings } = ports;
  if (journal.state.phase.kind === 'staging') await withdraw('overridden', 'an operator rolled back instead', ports);
  const attempt = { id: newAttemptId(), by: 'rollback', startedAt: isoTime(clock), ...marks } as const;
  const { trials } = settings;
  return (await journal.append({ type: 'rollback-staged', attempt, ...target, trials })).phase;
}

function marksOf({ reboot, force }: RollbackOptions, unverified: readonly string[]): Partial<Attempt> {
  return {
    rebootByHand: !reboot,
    ...(force && { forced: true }),
    ...(unverified.length > 0 && { unverified: [...unverified] }),
  };
}

/** Reads what the slot holds. A release that is no longer trusted is not refused here, but it is reported. */
async function findAndDoubt(
  slot: SlotName,
  before: Installed | undefined,
  ports: UpdatePorts,
): Promise<PreviousSlotContents> {
  const found = await verifyPreviousSlot(slot, ports);
  const doubt = before && (await ports.distrusted?.(before, ports.signal));
  const unverified = doubt === undefined ? found.unverified : [...found.unverified, `the release (it ${doubt})`];
  if (unverified.length > 0) ports.log.warn({}, `slot ${slot} boots without verification: ${unverified.join(', ')}`);
  return { ...found, unverified };
}

/**
 * Refuses a rollback to a release that a trust list revokes, directly or by its key, unless an operator forces it. A
 * fallback of the bootloader cannot be refused.
 */
async function refuseRevoked(to: Installed | undefined, { revoked }: UpdatePorts): Promise<void> {
  const why = to && (await revoked?.(to));
  if (why === undefined) return;
  throw new UpdateError('release-revoked', `release ${to?.version.name} ${why}`, {
    advice: 'install another release; --force rolls back anyway',
  });
}

/** Returns the known content of the slot, and the tasks of the boards. */
function firmwareBefore(before: Installed | undefined, boards: readonly Payload[], ports: UpdatePorts): FirmwareRecord {
  const unknown = unverifiedFirmware(ports);
  const { digest, signedBy, provides, payloads } = before ?? unknown;
  const partitions = payloads.filter(({ kind }) => kind === 'slots');
  const known = partitions.length > 0 ? partitions : unknown.payloads;
  return { digest, signedBy, provides, payloads: [...known, ...boards] };
}

type Payload = FirmwareRecord['payloads'][number];

/** Returns the tasks of the boards. By force, boards without a backup stay as they are. */
async function boardsFor(
  to: Installed | undefined,
  { force }: RollbackOptions,
  ports: UpdatePorts,
): Promise<readonly Payload[]> {
  const { payloads, stay } = await planEarlierBoards(ports.journal.state.installed, to, ports);
  const [first] = stay;
  if (first !== undefined && !force)
    throw new UpdateError(
      'no-previous-version',
      `the ${first.kind === 'mcu' ? 'board' : 'package'} ${first.name} has no backup of its previous image`,
      { advice: 'to leave it as it is and roll back everything else: agent rollback --force' },
    );
  for (const { name } of stay) ports.log.warn({ board: name }, `${name} stays as it is: it has no backup`);
  return payloads;
}

/**
 * Throws `no-previous-version` if the journal alone shows that. `slot`: the target of a rollback, or undefined on a
 * gateway without slots.
 */
export function requireRollbackTarget(slot: SlotName | undefined, slots: UpdateState['slots']): void {
  if (slot === undefined)
    throw new UpdateError('no-previous-version', 'no update has changed anything here that could be rolled back');
  if (slots[slot].seen !== undefined) return;
  throw new UpdateError('no-previous-version', `cannot roll back: slot ${slot} has no version that was ever committed`);
}
