import { execFileSync } from 'node:child_process';
import { gzipSync, zstdCompressSync } from 'node:zlib';

import fc from 'fast-check';

import { firmwareOpener } from '../../../../../src/firmware/open-firmware.ts';
import { AgentError } from '../../../../../src/system/errors.ts';
import type { PayloadOpening, PayloadWriter } from '../../../../../src/update/ports.ts';
import { digestOf } from '../../../../unit-and-integration/firmware/memory-slot.ts';
import { MemorySource } from '../../../../unit-and-integration/firmware/sources.ts';
import { stageInto } from '../../../../unit-and-integration/firmware/stage-into.ts';
import { hostile } from '../../mutation.ts';
import { openTarget, outcomeOf } from '../../target.ts';
import type { FuzzTarget } from '../../target.ts';

const CAPACITY_BYTES = 16 * 1024 * 1024;
const BOMB_BYTES = 256 * 1024 * 1024;

const open = firmwareOpener({ encoding: 'auto', trust: { keys: [], allowUnsigned: true }, deviceType: 'gw' });

/** A raw image in any compression that an operator permitted unsigned: a slot's worth of it, or an error. */
export const compressedImage: FuzzTarget = {
  name: 'compressed-image',
  maxCaseMs: 15_000,
  open: async () => {
    const content = Buffer.alloc(300_000, 'not very random, but not all the same either: 0123456789');
    const zeros = Buffer.alloc(BOMB_BYTES);
    const xz = execFileSync('xz', ['-c'], { input: content, maxBuffer: CAPACITY_BYTES });
    const small = [gzipSync(content), zstdCompressSync(content), xz];
    const bombs = [gzipSync(zeros, { level: 1 }), zstdCompressSync(zeros)];
    const cases = fc.record({
      bytes: fc.oneof(
        { arbitrary: hostile(fc.constantFrom<Uint8Array>(...small)), weight: 60 },
        { arbitrary: hostile(fc.constantFrom<Uint8Array>(...bombs)), weight: 1 },
      ),
      chunkBytes: fc.integer({ min: 1, max: 100_000 }),
    });
    return openTarget(cases, async ({ bytes, chunkBytes }) => {
      const slot = new BoundedSlot();
      const source = new MemorySource(bytes, {
        form: 'decoded',
        chunkSizes: [Math.max(chunkBytes, bytes.length / 200)],
      });
      const request = {
        source,
        openPayload: slot.openPayload,
        onProgress: () => {},
      };
      await outcomeOf(async () => stageInto(open, request, new AbortController().signal));
      if (slot.unclosed !== 0 || source.unclosed !== 0) throw new Error('something was left open');
      if (slot.writtenBytes > CAPACITY_BYTES) throw new Error(`${slot.writtenBytes} bytes went into the slot`);
    });
  },
};

/** Counts what is written, and refuses what is too much, as a slot does. */
class BoundedSlot {
  writtenBytes = 0;
  unclosed = 0;

  readonly openPayload = async (_opening: PayloadOpening): Promise<PayloadWriter> => {
    this.unclosed += 1;
    return {
      write: (chunk) => {
        if (this.writtenBytes + chunk.byteLength > CAPACITY_BYTES) throw full();
        this.writtenBytes += chunk.byteLength;
        return undefined;
      },
      checkpoint: async () => ({ sizeBytes: this.writtenBytes, digest: digestOf(Buffer.of()) }),
      finish: async () => ({ sizeBytes: this.writtenBytes, digest: digestOf(Buffer.of()), unchangedBytes: 0 }),
      [Symbol.asyncDispose]: async () => {
        this.unclosed -= 1;
      },
    };
  };
}

function full(): AgentError {
  return new AgentError({ code: 'slot-too-small', message: 'the slot is full', remedy: 'give-up', exit: 'disk' });
}
