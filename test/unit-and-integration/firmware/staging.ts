import { firmwareOpener } from '../../../src/firmware/open-firmware.ts';
import type { FirmwareSettings } from '../../../src/firmware/open-firmware.ts';
import { AgentError } from '../../../src/system/errors.ts';
import type { Checkpoint, FirmwareHeader, FirmwareSource } from '../../../src/update/ports.ts';
import type { StagedFirmware, TransferProgress } from '../../../src/update/ports/incoming.ts';
import { MemoryBase } from './delta/delta-bench.ts';
import { MemorySlot } from './memory-slot.ts';
import { stageInto } from './stage-into.ts';

/** A gateway's settings and results; may stage several times, as after a restart. */
export class Bench {
  /** The target of everything. */
  readonly slot = new MemorySlot();
  /** Targets of files with their own slots, by name. */
  readonly slots = new Map<string, MemorySlot>();
  hasPlaceForEach = false;
  /** The running image, from which deltas are rebuilt. */
  base: Uint8Array | undefined;
  readonly accepted: FirmwareHeader[] = [];
  readonly progress: TransferProgress[] = [];
  checkpoint: Checkpoint | undefined;
  checkpoints = 0;
  settings: FirmwareSettings = { encoding: 'auto', trust: { keys: [], allowUnsigned: true }, deviceType: 'gw' };
  /** Runs after each checkpoint was kept. */
  afterCheckpoint: () => void = () => {};

  slotOf(fileName: string): MemorySlot {
    if (!this.hasPlaceForEach) return this.slot;
    const slot = this.slots.get(fileName) ?? new MemorySlot();
    this.slots.set(fileName, slot);
    return slot;
  }

  cutPower(): void {
    for (const slot of this.slots.values()) slot.cutPower();
  }

  stage(source: FirmwareSource, signal: AbortSignal = new AbortController().signal): Promise<StagedFirmware> {
    return stageInto(
      firmwareOpener(this.settings),
      {
        source,
        accept: async (header) => {
          this.accepted.push(header);
        },
        openPayload: async (opening) => this.slotOf(opening.payload.fileName).openPayload(opening),
        openBase: async () => new MemoryBase(this.base ?? Buffer.alloc(0)),
        resume: this.checkpoint,
        onCheckpoint: async (checkpoint) => {
          this.checkpoint = checkpoint === undefined ? undefined : asKept(checkpoint);
          this.checkpoints += Number(checkpoint !== undefined);
          this.afterCheckpoint();
        },
        onProgress: (progress) => {
          this.progress.push(progress);
        },
      },
      signal,
    );
  }
}

/** As the journal gives it back. */
function asKept(checkpoint: Checkpoint): Checkpoint {
  return structuredClone(checkpoint);
}

/** Returns the error of an attempt, or undefined. Rethrows anything but an AgentError. */
export async function failureOf(attempt: Promise<unknown>): Promise<AgentError | undefined> {
  try {
    await attempt;
    return undefined;
  } catch (error) {
    if (error instanceof AgentError) return error;
    throw error;
  }
}
