import type { AgentError } from '../system/errors.ts';
import { UpdateError } from './errors.ts';
import type { FirmwareRecord, SlotKnowledge } from './journal/state.ts';
import type { SlotName, Verified, WholeSlot } from './ports.ts';
import type { StagedFirmware } from './ports/incoming.ts';

/**
 * Invariant 1: evidence is made in this file alone. The data that was written and read back must match the claims of a
 * signed manifest, or the operator's permission for unsigned firmware.
 */
export function evidenceOf(firmware: StagedFirmware): Verified {
  if (firmware.payloads.length === 0) throw notVerified('the firmware has no payload');
  for (const { promise, written, header } of firmware.payloads) {
    if (promise.kind === 'manifest' && promise.digest !== written.digest) {
      throw notVerified(`${header.fileName}: ${written.digest} was written, the manifest promises ${promise.digest}`);
    }
  }
  return mint(firmware.digest);
}

/** Evidence after a restart: what the targets hold now, read again, is what the journal recorded as verified. */
export function evidenceFromReading(record: FirmwareRecord, digestsByTarget: ReadonlyMap<string, string>): Verified {
  for (const { target, digest } of record.payloads)
    evidenceOfKept({ target, recorded: digest, found: digestsByTarget.get(target) ?? 'nothing' });
  return mint(record.digest);
}

/**
 * Evidence for a stored payload of a board or a package: its digest now matches a payload that was verified when it was
 * staged, or a backup.
 */
export function evidenceOfKept({ target, recorded, found }: ReadPartition): Verified {
  if (found !== recorded) throw notVerified(`target ${target} holds ${found} instead of ${recorded}`);
  return mint(recorded);
}

/** Reasons why an operator's file for a board may be flashed. */
export interface FileGrounds {
  /** Its own signature was verified with the key of the target. */
  readonly isSigned: boolean;
  readonly allowUnsigned: boolean;
}

/** Evidence of such a file, by its digest. */
export function evidenceOfFile(digest: string, { isSigned, allowUnsigned }: FileGrounds): Verified {
  if (!isSigned && !allowUnsigned) throw notVerified(`the file ${digest} is unsigned`);
  return mint(digest);
}

/** The record of a partition, or of a stored payload of a board, and its content now. */
export interface ReadPartition {
  readonly target: string;
  readonly recorded: string;
  readonly found: string;
}

export interface SlotContents {
  readonly slot: SlotName;
  /** The targets of kind slots. */
  readonly configured: readonly string[];
  /** The targets into which the firmware was written and verified. */
  readonly staged: readonly string[];
  /** The partitions that the firmware did not bring; after a restart, all of them. */
  readonly read: readonly ReadPartition[];
}

/**
 * Guarantee `whole-slot`: evidence that a slot may boot: each partition has its verified content, written now or read
 * again.
 */
export function evidenceOfSlot(firmware: Verified, contents: SlotContents): WholeSlot {
  const { slot, configured, staged, read } = contents;
  refuseDifferent(slot, read);
  const covered = new Set([...staged, ...read.map(({ target }) => target)]);
  const lacking = configured.filter((target) => !covered.has(target));
  if (lacking.length > 0)
    throw incompleteSlotError(slot, lacking.map((target) => `nothing vouches for ${target}`).join(', '));
  return mintWhole(firmware.digest, slot);
}

/**
 * Evidence for a rollback: this slot was seen running with its present content, and the readable part of it is
 * verified. Images that are written to while they run cannot be verified again; the attempt's report mentions that.
 */
export function evidenceOfHistory(
  firmware: Pick<FirmwareRecord, 'digest'>,
  slot: SlotName,
  { seen }: SlotKnowledge,
  read: readonly ReadPartition[],
): WholeSlot {
  if (seen === undefined) throw notVerified(`slot ${slot} was never seen to run with its present content`);
  refuseDifferent(slot, read);
  return mintWhole(firmware.digest, slot);
}

function refuseDifferent(slot: SlotName, read: readonly ReadPartition[]): void {
  for (const { target, recorded, found } of read) {
    if (found !== recorded) throw notVerified(`target ${target} holds ${found} in slot ${slot} instead of ${recorded}`);
  }
}

function mint(digest: string): Verified {
  const evidence: unknown = { digest };
  assertVerified(evidence);
  return evidence;
}

function mintWhole(digest: string, slot: SlotName): WholeSlot {
  const evidence: unknown = { digest, slot };
  assertWhole(evidence);
  return evidence;
}

/** Mints evidence: the callers above have made every check. */
function assertVerified(_evidence: unknown): asserts _evidence is Verified {}
function assertWhole(_evidence: unknown): asserts _evidence is WholeSlot {}

function notVerified(message: string): AgentError {
  return new UpdateError('not-verified', message);
}

/** The error of a slot that would not be whole, and so must not boot. */
export function incompleteSlotError(slot: SlotName, why: string): AgentError {
  return new UpdateError('slot-incomplete', `slot ${slot} would not be whole: ${why}`);
}
