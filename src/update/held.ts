import { isoTime } from './order.ts';
import type { InstallOrder, InstallOutcome, UpdatePorts } from './order.ts';
import type { FirmwareHeader, PayloadHeader, SlotName, StagedFirmware, StagedPayload, Target } from './ports.ts';
import { otherSlot } from './slot.ts';
import { readPartitions } from './whole-slot.ts';

/** Where a firmware is already, so that it need not be transferred. */
export type Held =
  /** It runs. */
  | { readonly kind: 'installed' }
  /** The slot that is to be tried holds it, as was read just now. */
  | { readonly kind: 'in-slot'; readonly firmware: StagedFirmware };

/** Ends the reading of a firmware behind its header. */
export class HeldAlready extends Error {
  readonly held: Held;

  constructor(held: Held) {
    super('nothing more of the firmware is needed');
    this.held = held;
  }
}

type Ports = Pick<UpdatePorts, 'journal' | 'targets'>;

/** Undefined: it has to be transferred. */
export async function findHeld(
  header: FirmwareHeader,
  targets: ReadonlyMap<PayloadHeader, Target>,
  { slot, ports }: { readonly slot: SlotName; readonly ports: Ports },
  signal: AbortSignal,
): Promise<Held | undefined> {
  const { installed } = ports.journal.state;
  const runs = installed?.slot === undefined || installed.slot === otherSlot(slot);
  if (header.digest === undefined) return undefined;
  if (runs && installed?.digest === header.digest) return { kind: 'installed' };
  const payloads = await readPayloads(targets, slot, ports, signal);
  if (payloads === undefined || header.provides === undefined) return undefined;
  const { digest, provides } = header;
  return { kind: 'in-slot', firmware: { header, digest, provides, payloads } };
}

/** Undefined: the slot does not hold all of them; boards keep no payload that was not flashed. */
async function readPayloads(
  targets: ReadonlyMap<PayloadHeader, Target>,
  slot: SlotName,
  ports: Ports,
  signal: AbortSignal,
): Promise<readonly StagedPayload[] | undefined> {
  const { records } = ports.journal.state.slots[slot];
  const isRecorded = ([{ digest }, { kind, name }]: readonly [PayloadHeader, Target]): boolean =>
    kind === 'slots' && digest !== undefined && records[name]?.digest === digest;
  if (![...targets].every(isRecorded)) return undefined;
  const payloads: StagedPayload[] = [];
  for (const [header, target] of targets) {
    if (target.kind !== 'slots' || header.digest === undefined) return undefined;
    const sizeBytes = records[target.name]?.sizeBytes ?? 0;
    const [read] = await readPartitions(slot, [target], ports, signal);
    if (read?.found !== header.digest) return undefined;
    const written = { sizeBytes, digest: read.found, unchangedBytes: sizeBytes };
    payloads.push({ header, written, promise: { kind: 'manifest', digest: header.digest } });
  }
  return payloads;
}

/** What runs is what was ordered, perhaps under another name. */
export async function endInstalled(
  { version }: InstallOrder,
  { journal, clock }: UpdatePorts,
): Promise<InstallOutcome> {
  const { installed } = await journal.append({ type: 'found-installed', at: isoTime(clock) });
  return { kind: 'installed', version: installed?.version.name ?? version.name };
}
