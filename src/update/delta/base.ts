import { AgentError, undefinedIf } from '../../system/errors.ts';
import { UpdateError } from '../errors.ts';
import type { PartitionRecord } from '../journal/state.ts';
import type { UpdatePorts } from '../policy/install-request.ts';
import type { BaseReader, PayloadHeader, SlotName, SlotsTarget, Target, WrittenPrefix } from '../ports.ts';
import { otherSlot } from '../slot.ts';

/**
 * Guarantee `delta`: each delta must have been made from the running partition's content. First the partition's record
 * is compared, if there is one (a factory image has none), and then the partition itself is read, since it may have
 * been written to. Throws `delta-base-mismatch` before any payload byte is fetched or the other slot changes. A delta
 * that continues after a checkpoint passed this before, and has discarded the other slot already; each of its windows
 * is still compared.
 */
export async function requireBases(
  targets: ReadonlyMap<PayloadHeader, Target>,
  slot: SlotName,
  { journal, signal }: Pick<UpdatePorts, 'journal' | 'signal'>,
): Promise<void> {
  const running = otherSlot(slot);
  const { slots, phase } = journal.state;
  const { records } = slots[running];
  const goesOn = phase.kind === 'staging' && phase.checkpoint !== undefined;
  for (const [{ delta, fileName }, target] of targets) {
    if (delta === undefined) continue;
    const { name } = target;
    if (target.kind !== 'slots') throw wrongBase(`${fileName} is a delta, and ${name} is not a pair of slots`);
    const record = records[name];
    if (record !== undefined) requireRecorded(name, record, delta.base);
    if (goesOn) continue;
    const found = await digestOf(target, running, delta.base.sizeBytes, signal);
    if (found === delta.base.digest) continue;
    const why = record === undefined ? '' : `: it was written to since it was installed (${record.version})`;
    throw wrongBase(`it was made from ${delta.base.digest}, and ${name} holds ${found}${why}`);
  }
}

function requireRecorded(name: string, { digest, sizeBytes, version }: PartitionRecord, base: WrittenPrefix): void {
  const madeFrom = `it was made from ${base.digest}`;
  if (digest !== base.digest) throw wrongBase(`${madeFrom}, and ${name} holds ${digest} (${version})`);
  if (sizeBytes === base.sizeBytes) return;
  throw wrongBase(`${madeFrom} with ${base.sizeBytes} bytes, and ${name} holds it with ${sizeBytes} (${version})`);
}

async function digestOf(target: SlotsTarget, slot: SlotName, sizeBytes: number, signal: AbortSignal): Promise<string> {
  const isTooSmall = (error: unknown): boolean => error instanceof AgentError && error.code === 'slot-too-small';
  return (await undefinedIf(isTooSmall, target.digestOf(slot, sizeBytes, signal))) ?? 'fewer bytes';
}

/** Opens the base of a delta: the target's partition in the running slot, while the other slot is written. */
export async function openBaseOf(target: Target | undefined, slot: SlotName, signal: AbortSignal): Promise<BaseReader> {
  if (target?.kind !== 'slots') throw wrongBase('a delta is for a pair of slots');
  return target.openBase(otherSlot(slot), signal);
}

function wrongBase(why: string): UpdateError {
  return new UpdateError('delta-base-mismatch', `the delta does not fit the running image: ${why}`);
}
