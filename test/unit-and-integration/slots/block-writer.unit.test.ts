import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { WrittenPrefix } from '../../../src/update/ports.ts';
import { CruelDevice } from './cruel-device.ts';
import { blockBytes, cut, digestOf, install, never, noise, openWriter, where, writeAll } from './writer-bench.ts';

const poolBytes = 3 * blockBytes;
const slotBytes = 12 * blockBytes;

const blank = (): CruelDevice => new CruelDevice(Buffer.alloc(slotBytes, 0x5a));
const places = fc.array(fc.nat(slotBytes), { maxLength: 30 });
const image = fc.integer({ min: 0, max: slotBytes }).map((size) => noise(size));

describe('writing', () => {
  test('the slot has the image for any chunks, and the rest of the slot is unchanged', async () => {
    await fc.assert(
      fc.asyncProperty(image, places, async (image, places) => {
        const device = blank();
        await using writer = await openWriter(device, { capacityBytes: slotBytes });
        await writeAll(writer, cut(image, places));
        const written = await writer.finish(never);

        expect(written).toEqual({ sizeBytes: image.byteLength, digest: digestOf(image), unchangedBytes: 0 });
        expect(device.content(slotBytes).subarray(0, image.byteLength).equals(image)).toBe(true);
        const rest = Buffer.alloc(slotBytes - image.byteLength, 0x5a);
        expect(device.content(slotBytes).subarray(image.byteLength).equals(rest)).toBe(true);
      }),
    );
  });

  test.each(['taken', 'refused at open', 'refused at transfer'] as const)(
    'a device that moves a few sectors at a time gets everything (O_DIRECT %s)',
    async (direct) => {
      const image = noise(9 * blockBytes + 4096 + 77);
      const device = blank();
      device.direct = direct;
      let call = 0;
      device.sectorsAtOnce = () => 1 + (call++ % 3);
      expect((await install(device, image, { capacityBytes: slotBytes })).digest).toBe(digestOf(image));
      expect(device.content(image.byteLength).equals(image)).toBe(true);
    },
  );

  test('whole pages go past the page cache, only the bytes after them through it', async () => {
    const device = blank();
    await install(device, noise(2 * blockBytes + 4096 + 100), { capacityBytes: slotBytes });
    const throughCache = device.writes().filter((write) => !write.direct);
    expect(throughCache).toEqual([{ kind: 'write', position: 2 * blockBytes + 4096, length: 100, direct: false }]);
  });

  test('where the page cache cannot be bypassed, it is flushed every 32 MiB', async () => {
    const image = Buffer.alloc(34 * 1024 * 1024, 1);
    const device = new CruelDevice(Buffer.alloc(image.byteLength));
    device.direct = 'refused at open';
    const geometry = { blockBytes: 1024 * 1024, blocks: 2 };
    await install(device, image, { capacityBytes: image.byteLength, geometry });
    expect(device.count('datasync')).toBe(1);
  });

  test('asks the caller to wait only when all blocks are in use, and takes a chunk larger than all of them', async () => {
    const image = noise(slotBytes);
    const device = blank();
    const gate = Promise.withResolvers<void>();
    device.ready = gate.promise;
    await using writer = await openWriter(device, { capacityBytes: slotBytes });
    expect(writer.write(image.subarray(0, poolBytes - blockBytes - 1))).toBeUndefined();
    const room = writer.write(image.subarray(poolBytes - blockBytes - 1));
    expect(room).toBeInstanceOf(Promise);
    gate.resolve();
    await room;
    expect((await writer.finish(never)).digest).toBe(digestOf(image));
    expect(device.content(slotBytes).equals(image)).toBe(true);
  });

  test('an image that is larger than the slot is refused before a byte is written beyond', async () => {
    const device = blank();
    const capacityBytes = 2 * blockBytes;
    await using writer = await openWriter(device, { capacityBytes });
    await writer.write(noise(capacityBytes));
    expect(() => writer.write(Buffer.alloc(1))).toThrow(
      expect.objectContaining({
        code: 'slot-too-small',
        message: `${where}: the image is larger than its ${capacityBytes} bytes`,
      }),
    );
    await writer[Symbol.asyncDispose]();
    expect(device.content(slotBytes).subarray(capacityBytes)).toEqual(Buffer.alloc(slotBytes - capacityBytes, 0x5a));
  });
});

describe('equal blocks', () => {
  test('the same image again is not written at all', async () => {
    const image = noise(3 * blockBytes + 5000);
    const device = blank();
    await install(device, image, { capacityBytes: slotBytes });
    device.transfers.length = 0;
    const again = await install(device, image, { capacityBytes: slotBytes });
    expect(again.unchangedBytes).toBe(image.byteLength);
    expect(device.writes()).toEqual([]);
  });

  test('only the block that differs is written, wherever in it the difference is', async () => {
    const old = noise(4 * blockBytes);
    for (const at of [blockBytes, blockBytes + 4096, 2 * blockBytes - 1]) {
      const device = new CruelDevice(old);
      const image = Buffer.from(old);
      image[at] = (image[at] ?? 0) ^ 1;
      const written = await install(device, image);
      expect(written).toEqual({
        sizeBytes: image.byteLength,
        digest: digestOf(image),
        unchangedBytes: 3 * blockBytes,
      });
      expect(device.writes().map((write) => write.position)).toEqual([blockBytes]);
      expect(device.content(image.byteLength).equals(image)).toBe(true);
    }
  });

  test('another image costs one page of reading a block before it is written', async () => {
    const device = blank();
    const geometry = { blockBytes: 8 * blockBytes, blocks: 2 };
    await using writer = await openWriter(device, { capacityBytes: slotBytes, geometry });
    await writeAll(writer, [noise(slotBytes)]);
    await writer.checkpoint(never);
    const reads = device.transfers.filter((transfer) => transfer.kind === 'read');
    expect(reads.map((read) => read.length)).toEqual([4096, 4096]);
  });

  test('the longer everything is different, the fewer blocks are looked at, until one is there already', async () => {
    const blocks = 300;
    const capacityBytes = blocks * blockBytes;
    const old = noise(capacityBytes);
    const sameFrom = 200 * blockBytes;
    const image = Buffer.concat([noise(sameFrom, 2), old.subarray(sameFrom)]);
    const device = new CruelDevice(old);
    const { unchangedBytes } = await install(device, image);
    const end = device.transfers.findLastIndex((transfer) => transfer.kind === 'write');
    const looks = device.transfers.slice(0, end).filter((transfer) => transfer.kind === 'read');
    expect(looks.length).toBeLessThan(75);
    expect(unchangedBytes).toBeGreaterThanOrEqual((100 - 16 - 3) * blockBytes);
    expect(device.content(capacityBytes).equals(image)).toBe(true);
  });

  test('rewrites an unreadable block', async () => {
    const image = noise(2 * blockBytes);
    const device = new CruelDevice(image);
    device.failFrom('read', 1, 'EIO');
    await using writer = await openWriter(device, { capacityBytes: image.byteLength });
    await writeAll(writer, [image]);
    await writer.checkpoint(never);
    expect(device.writes()).toHaveLength(2);
  });
});

describe('checkpoints', () => {
  test('after a checkpoint inside a page, only that page goes through the page cache', async () => {
    const device = blank();
    await using writer = await openWriter(device, { capacityBytes: slotBytes });
    await writeAll(writer, [noise(5000)]);
    await writer.checkpoint(never);
    await writeAll(writer, [noise(2 * blockBytes - 5000)]);
    await writer.finish(never);
    expect(device.writes().map(({ position, length, direct }) => [position, length, direct])).toEqual([
      [0, 4096, true],
      [4096, 904, false],
      [4096, 4096, true],
      [blockBytes, blockBytes, true],
    ]);
  });

  test('bytes that were equal are counted once, whatever checkpoints lie between', async () => {
    const image = noise(2 * blockBytes + 10);
    const device = new CruelDevice(image);
    await using writer = await openWriter(device, { capacityBytes: image.byteLength });
    for (const part of cut(image, [100, 5000, blockBytes + 1])) {
      await writer.write(part);
      await writer.checkpoint(never);
    }
    expect((await writer.finish(never)).unchangedBytes).toBe(image.byteLength);
  });

  test('another writer resumes from any checkpoint, after any loss of later data, with the same result', async () => {
    await fc.assert(
      fc.asyncProperty(image, fc.nat(), places, fc.nat(), async (image, stop, places, seed) => {
        const at = stop % (image.byteLength + 1);
        const device = blank();
        const prefix = await writeUntil(device, image, at);
        expect(prefix).toEqual({ sizeBytes: at, digest: digestOf(image.subarray(0, at)) });
        let draw = seed;
        device.cutPower(() => ((draw = (draw * 1103515245 + 12345) % 2 ** 31) & 0x10000) / 0x20000);

        await using writer = await openWriter(device, { capacityBytes: slotBytes, resumeAt: prefix });
        await writeAll(writer, cut(image.subarray(at), places));
        const { sizeBytes, digest } = await writer.finish(never);
        expect({ sizeBytes, digest }).toEqual({ sizeBytes: image.byteLength, digest: digestOf(image) });
        expect(device.content(image.byteLength).equals(image)).toBe(true);
        device.cutPower(() => 0.9);
        expect(device.content(image.byteLength).equals(image)).toBe(true);
      }),
    );
  });

  test('many checkpoints in one writing change nothing', async () => {
    const image = noise(5 * blockBytes + 3);
    const device = blank();
    await using writer = await openWriter(device, { capacityBytes: slotBytes });
    let sizeBytes = 0;
    for (const part of cut(image, [0, 1, 4095, 4097, blockBytes, blockBytes + 1, 2 * blockBytes - 1, 40_000])) {
      await writer.write(part);
      sizeBytes += part.byteLength;
      const prefix = await writer.checkpoint(never);
      expect(prefix).toEqual({ sizeBytes, digest: digestOf(image.subarray(0, sizeBytes)) });
    }
    expect(await writer.finish(never)).toEqual({ sizeBytes, digest: digestOf(image), unchangedBytes: 0 });
    expect(device.content(sizeBytes).equals(image)).toBe(true);
  });

  test('rejects a slot whose content does not match the checkpoint, and can start from the beginning', async () => {
    const image = noise(3 * blockBytes + 10);
    const device = new CruelDevice(image);
    const resumeAt = { sizeBytes: image.byteLength, digest: digestOf(noise(image.byteLength, 2)) };
    await expect(openWriter(device, { capacityBytes: image.byteLength, resumeAt })).rejects.toMatchObject({
      code: 'checkpoint-stale',
      remedy: 'retry',
    });
    expect(device.openFiles).toBe(0);
  });
});

async function writeUntil(device: CruelDevice, image: Buffer, at: number): Promise<WrittenPrefix> {
  await using writer = await openWriter(device, { capacityBytes: slotBytes });
  await writeAll(writer, [image.subarray(0, at)]);
  const prefix = await writer.checkpoint(never);
  await writeAll(writer, [image.subarray(at)]);
  return prefix;
}
