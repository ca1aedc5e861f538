import type { ReadPartition } from './evidence.ts';
import { incompleteSlotError } from './evidence.ts';
import type { FirmwareRecord, Installed, PartitionRecord } from './journal/state.ts';
import type { UpdatePorts } from './policy/install-request.ts';
import type { SlotName, SlotsTarget, Target, WrittenPayload } from './ports.ts';
import { otherSlot } from './slot.ts';

/** A partition that a release leaves out, and how it gets the content of the running slot. */
export interface PartitionCopy {
  readonly target: SlotsTarget;
  /** The required content of the partition. */
  readonly record: PartitionRecord;
  /** `holds`: it was read and holds that already. */
  readonly how: 'holds' | 'copy';
}

export function slotsTargets(targets: Iterable<Target>): readonly SlotsTarget[] {
  return [...targets].filter((target) => target.kind === 'slots');
}

type Ports = Pick<UpdatePorts, 'journal' | 'targets' | 'signal'>;

/**
 * Guarantee `whole-slot`: plans the partitions of a slot that a release leaves out. The release belongs to the other
 * running partitions, so these partitions must have the same content as in the running slot, and it must be verified.
 * Throws `slot-incomplete`; nothing is written here.
 */
export async function planCompletion(
  brought: Iterable<Target>,
  slot: SlotName,
  ports: Ports,
): Promise<readonly PartitionCopy[]> {
  const names = new Set(slotsTargets(brought).map(({ name }) => name));
  if (names.size === 0) return [];
  const completions: PartitionCopy[] = [];
  for (const target of slotsTargets(ports.targets.values())) {
    if (!names.has(target.name)) completions.push(await completionOf(target, slot, ports));
  }
  return completions;
}

async function completionOf(target: SlotsTarget, slot: SlotName, ports: Ports): Promise<PartitionCopy> {
  const running = otherSlot(slot);
  const { slots } = ports.journal.state;
  const record = slots[running].records[target.name];
  const lacks = `the firmware has nothing for ${target.name}, and`;
  if (record === undefined)
    throw incompleteSlotError(slot, `${lacks} what that holds in slot ${running} was never verified`);
  const held = slots[slot].records[target.name];
  if (held !== undefined && held.digest === record.digest && held.sizeBytes === record.sizeBytes) {
    const [read] = await readPartitions(slot, [target], ports);
    if (read?.found === read?.recorded) return { target, record, how: 'holds' };
  }
  const found = await target.digestOf(running, record.sizeBytes, ports.signal);
  if (found === record.digest) return { target, record, how: 'copy' };
  throw incompleteSlotError(slot, `${lacks} in slot ${running} it no longer holds the verified ${record.version}`);
}

/**
 * Copies a partition from the running slot. `onOpened` is called before the first byte is written. Throws if its content
 * no longer matches the earlier reading.
 */
export async function copyPartition(
  { target, record: { digest, sizeBytes } }: PartitionCopy,
  slot: SlotName,
  onOpened: () => Promise<void>,
  signal: AbortSignal,
): Promise<WrittenPayload> {
  const running = otherSlot(slot);
  const payload = { fileName: `${target.name} of slot ${running}`, target: { name: target.name } };
  await using writer = await target.openSlot(slot, { payload, sizeBytes, resumeAt: undefined }, signal);
  await onOpened();
  await target.copyInto(writer, running, sizeBytes, signal);
  const written = await writer.finish(signal);
  if (written.digest !== digest) {
    throw incompleteSlotError(slot, `${target.name} of slot ${running} changed while it was copied`);
  }
  return written;
}

/** Reads the recorded partitions of a slot. A record that proves wrong is removed. */
export async function readPartitions(
  slot: SlotName,
  targets: readonly SlotsTarget[],
  { journal, signal }: Pick<Ports, 'journal' | 'signal'>,
): Promise<readonly ReadPartition[]> {
  const { records } = journal.state.slots[slot];
  const read: ReadPartition[] = [];
  for (const target of targets) {
    const record = records[target.name];
    if (record === undefined) continue;
    const found = await target.digestOf(slot, record.sizeBytes, signal);
    read.push({ target: target.name, recorded: record.digest, found });
  }
  const wrong = read.filter(({ recorded, found }) => recorded !== found).map(({ target }) => target);
  if (wrong.length > 0) await journal.append({ type: 'records-invalidated', slot, targets: wrong });
  return read;
}

/** The content of a slot before a manual rollback to it. */
export interface PreviousSlotContents {
  readonly read: readonly ReadPartition[];
  /** Partitions that cannot be verified, and why. */
  readonly unverified: readonly string[];
}

/** Reads a slot again that ran before. Throws `not-verified` if a partition has changed that nothing writes to. */
export async function verifyPreviousSlot(slot: SlotName, ports: Ports): Promise<PreviousSlotContents> {
  const { records } = ports.journal.state.slots[slot];
  const unverified: string[] = [];
  const read: ReadPartition[] = [];
  for (const target of slotsTargets(ports.targets.values())) {
    const record = records[target.name];
    if (record === undefined) unverified.push(`${target.name} (the agent has no record of its content)`);
    else if (record.readOnly === true) read.push(...(await readPartitions(slot, [target], ports)));
    else if ((await target.digestOf(slot, record.sizeBytes, ports.signal)) !== record.digest) {
      unverified.push(`${target.name} (it changed after it was verified)`);
    }
  }
  return { read, unverified };
}

/** Returns the verified content of the partitions of a release, by target, with the format that their images show. */
export async function recordsOf(
  { payloads, signedBy }: FirmwareRecord,
  { version, at }: Pick<Installed, 'version' | 'at'>,
  slot: SlotName,
  { targets, signal }: Pick<Ports, 'targets' | 'signal'>,
): Promise<Record<string, PartitionRecord>> {
  const records: Record<string, PartitionRecord> = {};
  for (const { target: name, kind, digest, sizeBytes } of payloads) {
    if (kind !== 'slots' || sizeBytes === 0) continue;
    const target = targets.get(name);
    const readOnly = target?.kind === 'slots' && (await target.isReadOnly(slot, signal));
    records[name] = { digest, sizeBytes, version: version.name, signedBy, at, ...(readOnly && { readOnly }) };
  }
  return records;
}
