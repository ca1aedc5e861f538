import { abortable } from '../system/abortable.ts';
import type { Log } from '../system/log/log.ts';
import type { Clock } from '../system/time/clock.ts';
import { systemClock } from '../system/time/clock.ts';
import type { BaseReader, PayloadOpening, PayloadWriter, SlotName, SlotsTarget } from '../update/ports.ts';
import type { BlockGeometry } from './blocks/block-pool.ts';
import { BlockPool, defaultGeometry } from './blocks/block-pool.ts';
import { BlockWriter } from './blocks/block-writer.ts';
import { readInOrder, SlotReader } from './blocks/read-in-order.ts';
import type { VisitBlock } from './blocks/read-in-order.ts';
import type { OpenDevice } from './device-file.ts';
import { openDevice } from './device-file.ts';
import type { KernelPaths } from './device-identity.ts';
import { realSystem } from './device-identity.ts';
import { SlotError } from './errors.ts';
import type { StartHasher } from './hasher.ts';
import { WorkerHasher } from './hasher.ts';
import { HEAD_BYTES, isReadOnlyFormat } from './read-only-image.ts';
import { checkSlot, locateSlot } from './slot-checks.ts';
import { SlotMedium } from './slot-medium.ts';

export interface SlotsSettings {
  /** The name of the target, as in `[targets.NAME]`. */
  readonly name: string;
  /** Paths of block devices, or of files whose size is their capacity. */
  readonly slots: Readonly<Record<SlotName, string>>;
  /** The slots of other targets. */
  readonly others?: readonly string[];
  /** Nothing writes to the images, even if their format would allow it. */
  readonly readOnly?: boolean | undefined;
}

/** The needs of the slots: the running slot, and the machine. All except the first two have defaults. */
export interface SlotsDeps {
  readonly bootedSlot: (signal: AbortSignal) => Promise<SlotName>;
  readonly log: Log;
  readonly clock?: Pick<Clock, 'sleep'>;
  readonly system?: KernelPaths;
  readonly openDevice?: OpenDevice;
  readonly startHasher?: StartHasher;
  readonly geometry?: BlockGeometry;
}

/** A pair of partitions: one of them runs, and the other can be overwritten. Throws SlotErrors. */
export function createSlotsTarget(settings: SlotsSettings, given: SlotsDeps): SlotsTarget {
  const deps = withDefaults(given);
  return {
    kind: 'slots',
    name: settings.name,
    openSlot: async (slot, opening, signal) => openSlot({ slot, opening, settings, deps }, signal),
    digestOf: async (slot, sizeBytes, signal) => digestOf({ slot, sizeBytes, settings, deps }, signal),
    openBase: async (slot, signal) => openBase({ slot, settings, deps }, signal),
    isReadOnly: async (slot, signal) => isReadOnly({ slot, settings, deps }, signal),
    copyInto: async (writer, slot, sizeBytes, signal) => copyInto(writer, { slot, sizeBytes, settings, deps }, signal),
  };
}

interface Request {
  readonly slot: SlotName;
  readonly settings: SlotsSettings;
  readonly deps: Required<SlotsDeps>;
}

async function openSlot(
  request: Request & { readonly opening: PayloadOpening },
  signal: AbortSignal,
): Promise<PayloadWriter> {
  const { slot, opening, settings, deps } = request;
  signal.throwIfAborted();
  const booted = await deps.bootedSlot(signal);
  const { slots, others = [] } = settings;
  const admission = { slot, slots, others, booted, sizeBytes: opening.sizeBytes };
  const place = await checkSlot(admission, deps.system);
  const { where, capacityBytes } = place;
  const prefix = opening.resumeAt;
  if (prefix !== undefined && prefix.sizeBytes > capacityBytes) {
    throw new SlotError('checkpoint-stale', where, 'is smaller than in the checkpoint');
  }
  await using opened = new AsyncDisposableStack();
  const medium = opened.use(await SlotMedium.open(place, 'write', deps));
  const hasher = opened.use(deps.startHasher(where));
  const pool = new BlockPool(deps.geometry);
  const resources = new AsyncDisposableStack();
  const writer = new BlockWriter({ where, capacityBytes, medium, hasher, pool, resources, signal });
  if (prefix !== undefined) await writer.resume(prefix);
  resources.use(opened.move());
  return writer;
}

interface Reading extends Request {
  readonly sizeBytes: number;
}

async function digestOf(reading: Reading, signal: AbortSignal): Promise<string> {
  const { slot, settings, deps } = reading;
  signal.throwIfAborted();
  await using hasher = deps.startHasher(`slot ${slot} (${settings.slots[slot]})`);
  await readSlot(reading, async (bytes) => abortable(hasher.update(bytes), signal), signal);
  return await abortable(hasher.digest(), signal);
}

async function copyInto(writer: PayloadWriter, reading: Reading, signal: AbortSignal): Promise<void> {
  const visit = (bytes: Buffer): Promise<void> | undefined => writer.write(bytes);
  await readSlot(reading, visit, signal);
}

async function openBase({ slot, settings, deps }: Request, signal: AbortSignal): Promise<BaseReader> {
  signal.throwIfAborted();
  const place = await locateSlot(slot, settings.slots[slot], deps.system);
  return new SlotReader(place, await SlotMedium.open(place, 'read', deps));
}

async function isReadOnly({ slot, settings, deps }: Request, signal: AbortSignal): Promise<boolean> {
  if (settings.readOnly === true) return true;
  const { capacityBytes } = await locateSlot(slot, settings.slots[slot], deps.system);
  let found = false;
  const visit = (head: Buffer): void => {
    found = isReadOnlyFormat(head);
  };
  await readSlot({ slot, settings, deps, sizeBytes: Math.min(HEAD_BYTES, capacityBytes) }, visit, signal);
  return found;
}

async function readSlot(reading: Reading, visit: VisitBlock, signal: AbortSignal): Promise<void> {
  const { slot, sizeBytes, settings, deps } = reading;
  signal.throwIfAborted();
  const place = await locateSlot(slot, settings.slots[slot], deps.system);
  if (sizeBytes > place.capacityBytes) {
    throw new SlotError('slot-too-small', place.where, `holds ${place.capacityBytes} bytes, not ${sizeBytes}`);
  }
  await using medium = await SlotMedium.open(place, 'read', deps);
  await readInOrder({ medium, pool: new BlockPool(deps.geometry) }, sizeBytes, visit, signal);
}

function withDefaults(given: SlotsDeps): Required<SlotsDeps> {
  return {
    clock: systemClock,
    system: realSystem,
    openDevice,
    startHasher: (where) => new WorkerHasher(where),
    geometry: defaultGeometry,
    ...given,
  };
}
