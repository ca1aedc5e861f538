import { AgentError } from '../../system/errors.ts';
import type { UpdatePorts } from '../choice/order.ts';
import { UpdateError } from '../errors.ts';
import type { BaseReader, PayloadHeader, SlotName, SlotsTarget, Target, WrittenPrefix } from '../ports.ts';
import { otherSlot } from '../slot.ts';

/**
 * Each delta must have been made from what the partition holds that runs: its record says what that is; where there is none
 * (an image of the factory), the partition is read once. Throws `delta-base`; no payload byte was fetched then.
 */
export async function requireBases(
  targets: ReadonlyMap<PayloadHeader, Target>,
  slot: SlotName,
  { journal }: Pick<UpdatePorts, 'journal'>,
  signal: AbortSignal,
): Promise<void> {
  const running = otherSlot(slot);
  const { records } = journal.state.slots[running];
  for (const [{ delta, fileName }, target] of targets) {
    if (delta === undefined) continue;
    const { name } = target;
    if (target.kind !== 'slots') throw wrongBase(`${fileName} is a delta, and ${name} is no pair of slots`);
    const record = records[name];
    if (record === undefined) await requireRead(target, running, delta.base, signal);
    else if (record.digest !== delta.base.digest || record.sizeBytes !== delta.base.sizeBytes)
      throw wrongBase(`it was made from ${delta.base.digest}, and ${name} holds ${record.digest} (${record.version})`);
  }
}

async function requireRead(
  target: SlotsTarget,
  running: SlotName,
  { digest, sizeBytes }: WrittenPrefix,
  signal: AbortSignal,
): Promise<void> {
  const found = await digestOf(target, running, sizeBytes, signal);
  if (found === digest) return;
  throw wrongBase(`it was made from ${digest}, and ${target.name} holds ${found}`);
}

async function digestOf(target: SlotsTarget, slot: SlotName, sizeBytes: number, signal: AbortSignal): Promise<string> {
  try {
    return await target.digestOf(slot, sizeBytes, signal);
  } catch (error) {
    if (!(error instanceof AgentError) || error.code !== 'slot-too-small') throw error;
    return 'fewer bytes';
  }
}

/** What a payload is rebuilt from: its partition in the slot that runs, whatever is written beside it. */
export async function openBaseOf(target: Target | undefined, slot: SlotName, signal: AbortSignal): Promise<BaseReader> {
  if (target?.kind !== 'slots') throw wrongBase('a delta is for a pair of slots');
  return target.openBase(otherSlot(slot), signal);
}

function wrongBase(why: string): UpdateError {
  return new UpdateError('delta-base', `the delta does not fit what runs: ${why}`);
}
