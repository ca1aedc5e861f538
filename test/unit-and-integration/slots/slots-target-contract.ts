import { describe, expect, test } from 'vitest';

import type { PayloadOpening, PayloadWriter, SlotName, SlotsTarget, WrittenPrefix } from '../../../src/update/ports.ts';
import { cut, digestOf, never, noise } from './writer-bench.ts';

/** A pair of slots of the same capacity, a multiple of 512; slot A is booted, both are full of zeros. */
export interface SlotsBench extends AsyncDisposable {
  readonly target: SlotsTarget;
  readonly capacityBytes: number;
  /** The slot's first bytes, by another way than the target's. */
  content(slot: SlotName, sizeBytes: number): Promise<Buffer>;
}

const tail = 4096 + 511;

/** Guarantees of every implementation of SlotsTarget. */
export function slotsTargetContract(name: string, makeBench: () => Promise<SlotsBench>): void {
  describe(`slots on ${name}`, () => {
    test('an image is on the slot when it is finished, and its digest is read from there', async () => {
      await using bench = await makeBench();
      const image = noise(bench.capacityBytes - tail);
      expect(await install(bench, image)).toEqual({
        sizeBytes: image.byteLength,
        digest: digestOf(image),
        unchangedBytes: 0,
      });
      expect((await bench.content('B', image.byteLength)).equals(image)).toBe(true);
      expect(await bench.target.digestOf('B', image.byteLength, never)).toBe(digestOf(image));
      expect(await bench.target.digestOf('B', 1000, never)).toBe(digestOf(image.subarray(0, 1000)));
    });

    test('an image may fill the slot to the last byte, and the other slot is not touched', async () => {
      await using bench = await makeBench();
      const image = noise(bench.capacityBytes);
      await install(bench, image);
      expect((await bench.content('B', bench.capacityBytes)).equals(image)).toBe(true);
      const zeros = Buffer.alloc(bench.capacityBytes);
      expect((await bench.content('A', bench.capacityBytes)).equals(zeros)).toBe(true);
      expect(await bench.target.digestOf('A', bench.capacityBytes, never)).toBe(digestOf(zeros));
    });

    test('reports a repeated installation, and changes nothing', async () => {
      await using bench = await makeBench();
      const image = noise(bench.capacityBytes - tail);
      await install(bench, image);
      expect((await install(bench, image)).unchangedBytes).toBe(image.byteLength);
    });

    test('another writer resumes after a checkpoint with the same bytes', async () => {
      await using bench = await makeBench();
      const image = noise(bench.capacityBytes);
      const at = Math.floor(image.byteLength / 2) + 1234;
      const prefix = await writeUntil(bench, image, at);
      expect(prefix).toEqual({ sizeBytes: at, digest: digestOf(image.subarray(0, at)) });
      await using writer = await open(bench, { sizeBytes: image.byteLength, resumeAt: prefix });
      await writer.write(image.subarray(at));
      expect((await writer.finish(never)).digest).toBe(digestOf(image));
      expect((await bench.content('B', image.byteLength)).equals(image)).toBe(true);
    });

    test.each([
      ['other bytes', (capacity: number) => ({ sizeBytes: 5000, digest: digestOf(noise(capacity)) })],
      ['more than the slot holds', (capacity: number) => ({ sizeBytes: capacity + 1, digest: digestOf(noise(1)) })],
    ])('a checkpoint that speaks of %s is stale', async (_, prefixOf) => {
      await using bench = await makeBench();
      const opening = { sizeBytes: undefined, resumeAt: prefixOf(bench.capacityBytes) };
      await expect(open(bench, opening)).rejects.toMatchObject({ code: 'checkpoint-stale', remedy: 'retry' });
      expect((await install(bench, noise(10))).sizeBytes).toBe(10);
    });

    test('an image that is too large is refused before the first byte if its size is known', async () => {
      await using bench = await makeBench();
      const opening = { sizeBytes: bench.capacityBytes + 1, resumeAt: undefined };
      await expect(open(bench, opening)).rejects.toMatchObject({ code: 'slot-too-small' });
      await expect(bench.target.digestOf('B', bench.capacityBytes + 1, never)).rejects.toMatchObject({
        code: 'slot-too-small',
      });
    });

    test('an image of unknown size is refused as soon as it does not fit', async () => {
      await using bench = await makeBench();
      await using writer = await open(bench, { sizeBytes: undefined, resumeAt: undefined });
      await writer.write(Buffer.alloc(bench.capacityBytes, 1));
      expect(() => writer.write(Buffer.alloc(1))).toThrow(expect.objectContaining({ code: 'slot-too-small' }));
    });

    test('a slot is copied into the other one, and written back again nowhere else', async () => {
      await using bench = await makeBench();
      const sizeBytes = bench.capacityBytes - tail;
      const before = noise(bench.capacityBytes);
      await install(bench, before);
      {
        await using writer = await open(bench, { sizeBytes, resumeAt: undefined });
        await bench.target.copyInto(writer, 'A', sizeBytes, never);
        expect(await writer.finish(never)).toMatchObject({ sizeBytes, digest: digestOf(Buffer.alloc(sizeBytes)) });
      }
      const expected = Buffer.concat([Buffer.alloc(sizeBytes), before.subarray(sizeBytes)]);
      expect((await bench.content('B', bench.capacityBytes)).equals(expected)).toBe(true);
    });

    test('any part of the slot that runs can be read, up to its last byte, and no further', async () => {
      await using bench = await makeBench();
      const image = noise(bench.capacityBytes);
      await install(bench, image);
      await using base = await bench.target.openBase('B', never);
      for (const [position, sizeBytes] of [
        [0, 1],
        [4095, 2],
        [bench.capacityBytes - 513, 513],
        [5000, 0],
        [bench.capacityBytes, 0],
        [1, Math.min(bench.capacityBytes - 1, 4 * 1024 * 1024)],
      ] as const) {
        const read = await base.read(position, sizeBytes, never);
        expect(image.subarray(position, position + sizeBytes).equals(read)).toBe(true);
      }
      await expect(base.read(bench.capacityBytes - 1, 2, never)).rejects.toMatchObject({ code: 'slot-too-small' });
      const reason = new Error('stop');
      await expect(base.read(0, 1, AbortSignal.abort(reason))).rejects.toBe(reason);
    });

    test('more than the slot holds cannot be copied', async () => {
      await using bench = await makeBench();
      await using writer = await open(bench, { sizeBytes: undefined, resumeAt: undefined });
      const copying = bench.target.copyInto(writer, 'A', bench.capacityBytes + 1, never);
      await expect(copying).rejects.toMatchObject({ code: 'slot-too-small' });
    });

    test('the booted slot is refused', async () => {
      await using bench = await makeBench();
      const opening = { payload, sizeBytes: 1, resumeAt: undefined };
      await expect(bench.target.openSlot('A', opening, never)).rejects.toMatchObject({ code: 'slot-booted' });
    });

    test('an abort passes its reason on, and the slot can be opened again immediately', async () => {
      await using bench = await makeBench();
      const reason = new Error('stop');
      const stop = new AbortController();
      {
        await using writer = await open(bench, { sizeBytes: undefined, resumeAt: undefined }, stop.signal);
        await writer.write(noise(bench.capacityBytes));
        stop.abort(reason);
        await expect(writer.finish(never)).rejects.toBe(reason);
      }
      const image = noise(bench.capacityBytes, 2);
      expect((await install(bench, image)).digest).toBe(digestOf(image));
      await expect(bench.target.digestOf('B', 1, AbortSignal.abort(reason))).rejects.toBe(reason);
    });
  });
}

const payload: PayloadOpening['payload'] = { fileName: 'rootfs.ext4', target: 'rootfs-image' };

async function open(
  bench: SlotsBench,
  opening: Omit<PayloadOpening, 'payload'>,
  signal: AbortSignal = never,
): Promise<PayloadWriter> {
  return bench.target.openSlot('B', { payload, ...opening }, signal);
}

async function install(bench: SlotsBench, image: Buffer): ReturnType<PayloadWriter['finish']> {
  await using writer = await open(bench, { sizeBytes: image.byteLength, resumeAt: undefined });
  for (const chunk of cut(image, [1, 100_000, 100_001, 300_000])) await writer.write(chunk);
  return await writer.finish(never);
}

async function writeUntil(bench: SlotsBench, image: Buffer, at: number): Promise<WrittenPrefix> {
  await using writer = await open(bench, { sizeBytes: undefined, resumeAt: undefined });
  await writer.write(image.subarray(0, at));
  const prefix = await writer.checkpoint(never);
  await writer.write(image.subarray(at));
  return prefix;
}
