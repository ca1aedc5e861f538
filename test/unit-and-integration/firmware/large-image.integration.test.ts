import { createHash } from 'node:crypto';

import { describe, expect, test } from 'vitest';

import { firmwareOpener } from '../../../src/firmware/open-firmware.ts';
import type { Checkpoint, PayloadWriter } from '../../../src/update/ports.ts';
import type { StagedFirmware } from '../../../src/update/ports/incoming.ts';
import { repeatingSource } from './sources.ts';
import { stageInto } from './stage-into.ts';

const MIB = 1024 * 1024;
const never = new AbortController().signal;

/** Counts and forgets. */
class CountingWriter implements PayloadWriter {
  writtenBytes = 0;
  largestChunk = 0;

  write(chunk: Uint8Array): undefined {
    this.writtenBytes += chunk.length;
    this.largestChunk = Math.max(this.largestChunk, chunk.length);
  }

  async checkpoint(): Promise<{ sizeBytes: number; digest: string }> {
    return { sizeBytes: this.writtenBytes, digest: 'sha256:none' };
  }

  async finish(): Promise<{ sizeBytes: number; digest: string; unchangedBytes: number }> {
    return { ...(await this.checkpoint()), unchangedBytes: 0 };
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

interface Run {
  readonly staged: StagedFirmware;
  readonly writer: CountingWriter;
  readonly checkpoints: readonly Checkpoint[];
  readonly peakGrowthBytes: number;
}

async function stage(piece: Uint8Array, times: number): Promise<Run> {
  const writer = new CountingWriter();
  const checkpoints: Checkpoint[] = [];
  const before = process.memoryUsage.rss();
  let peak = before;
  const staged = await stageInto(
    firmwareOpener({
      encoding: 'auto',
      trust: { keys: [], allowUnsigned: true },
      deviceType: 'gw',
      checkpointDistance: { bytes: 64 * MIB, shortestMs: 0, longestMs: 60_000 },
    }),
    {
      source: repeatingSource({ piece, times }),
      openPayload: async () => writer,
      onCheckpoint: async (checkpoint) => {
        if (checkpoint !== undefined) checkpoints.push(checkpoint);
        peak = Math.max(peak, process.memoryUsage.rss());
      },
      onProgress: () => {},
    },
    never,
  );
  return { staged, writer, checkpoints, peakGrowthBytes: peak - before };
}

describe('an image beyond 2³² bytes', () => {
  const bytes = Buffer.concat(Array.from({ length: 1536 }, (_, n) => createHash('sha256').update(`${n}`).digest()));
  const piece = Buffer.from(bytes.toString('base64'));

  test('is decoded in constant memory, in small slices, with offsets that stay exact', async () => {
    const times = Math.ceil(2 ** 32 / bytes.length) + 2000;
    const { staged, writer, checkpoints, peakGrowthBytes } = await stage(piece, times);
    expect(staged.payloads[0]?.written.sizeBytes).toBe(times * bytes.length);
    expect(staged.payloads[0]?.written.sizeBytes).toBeGreaterThan(2 ** 32);
    expect(writer.largestChunk).toBeLessThanOrEqual(64 * 1024);
    expect(peakGrowthBytes).toBeLessThan(64 * MIB);
    const last = checkpoints.at(-1);
    expect(last?.wire.offset).toBeGreaterThan(2 ** 32);
    for (const { wire, image, carry } of checkpoints) {
      expect(((wire.offset - 1) / 4) * 3).toBe(image.sizeBytes + (carry.length / 4) * 3);
    }
  });
});
