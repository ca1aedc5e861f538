import { createStageFirmware } from '../../../src/firmware/stage-firmware.ts';
import type { FirmwareSettings } from '../../../src/firmware/stage-firmware.ts';
import { AgentError } from '../../../src/system/errors.ts';
import type {
  Checkpoint,
  FirmwareHeader,
  FirmwareSource,
  StagedFirmware,
  TransferProgress,
} from '../../../src/update/ports.ts';
import { MemorySlot } from './memory-slot.ts';

/** One gateway's wishes and what became of them; may stage several times, as after a restart. */
export class Bench {
  readonly slot = new MemorySlot();
  readonly accepted: FirmwareHeader[] = [];
  readonly progress: TransferProgress[] = [];
  checkpoint: Checkpoint | undefined;
  checkpoints = 0;
  settings: FirmwareSettings = { encoding: 'auto', trust: { keys: [], allowUnsigned: true }, deviceType: 'gw' };
  /** Runs after each checkpoint was kept. */
  afterCheckpoint: () => void = () => {};

  stage(source: FirmwareSource, signal: AbortSignal = new AbortController().signal): Promise<StagedFirmware> {
    return createStageFirmware(this.settings)(
      {
        source,
        installedProvides: {},
        accept: async (header) => {
          this.accepted.push(header);
        },
        openPayload: this.slot.openPayload,
        resume: this.checkpoint,
        onCheckpoint: async (checkpoint) => {
          this.checkpoint = checkpoint;
          this.checkpoints += 1;
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

/** What an attempt failed with; undefined if it did not. Anything but an AgentError is thrown on. */
export async function failureOf(attempt: Promise<unknown>): Promise<AgentError | undefined> {
  try {
    await attempt;
    return undefined;
  } catch (error) {
    if (error instanceof AgentError) return error;
    throw error;
  }
}
