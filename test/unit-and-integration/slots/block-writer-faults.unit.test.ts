import { describe, expect, test } from 'vitest';

import type { Clock } from '../../../src/system/time/clock.ts';
import { CruelDevice } from './cruel-device.ts';
import { blockBytes, install, never, noise, openWriter, where } from './writer-bench.ts';

const image = noise(8 * blockBytes + 700);
const options = { capacityBytes: image.byteLength };
const blank = (): CruelDevice => new CruelDevice(Buffer.alloc(image.byteLength));

describe('a device that fails', () => {
  test.each([
    ['EIO', 'slot-io-error', 'give-up'],
    ['ENOSPC', 'slot-no-space', 'give-up'],
    ['ENODEV', 'slot-disappeared', 'retry'],
    ['ENXIO', 'slot-disappeared', 'retry'],
    ['EROFS', 'slot-read-only', 'give-up'],
    ['EPERM', 'slot-denied', 'give-up'],
    ['ESOMETHING', 'slot-io-error', 'give-up'],
  ])('%s while writing is reported as %s', async (systemCode, code, remedy) => {
    const device = blank();
    device.failFrom('write', 3, systemCode);
    const installing = install(device, image, options);
    await expect(installing).rejects.toMatchObject({ code, remedy, exit: 'disk' });
    await expect(installing).rejects.toThrow(/^slot B \(cruel\): cannot write at byte \d+: E/u);
    expect(device.openFiles).toBe(0);
  });

  test.each([1, 2, 5, 8, 9])('an error at write %i never ends in success and leaves nothing open', async (nth) => {
    const device = blank();
    device.failFrom('write', nth, 'EIO');
    await expect(install(device, image, options)).rejects.toMatchObject({ code: 'slot-io-error' });
    expect(device.openFiles).toBe(0);
  });

  test('an error while flushing is an error', async () => {
    const device = blank();
    device.failFrom('sync', 1, 'EIO');
    await expect(install(device, image, options)).rejects.toMatchObject({
      code: 'slot-io-error',
      message: `${where}: cannot flush it: EIO: the device says no`,
    });
  });

  test('a failure is thrown at the next call, and again', async () => {
    const device = blank();
    device.failFrom('write', 1, 'EIO');
    await using writer = await openWriter(device, options);
    await writer.write(image.subarray(0, blockBytes));
    await expect(writer.checkpoint(never)).rejects.toMatchObject({ code: 'slot-io-error' });
    expect(() => writer.write(image.subarray(0, 1))).toThrow(expect.objectContaining({ code: 'slot-io-error' }));
  });

  test.each([0, blockBytes - 1, 5 * blockBytes, image.byteLength - 1])(
    'a byte that reads back differently, at %i, is found',
    async (at) => {
      const device = blank();
      await using writer = await openWriter(device, options);
      await writer.write(image);
      await writer.checkpoint(never);
      device.lieAt(at);
      const from = at - (at % blockBytes);
      const to = Math.min(from + blockBytes, image.byteLength) - 1;
      await expect(writer.finish(never)).rejects.toMatchObject({
        code: 'readback-mismatch',
        remedy: 'retry',
        message: `${where}: bytes ${from} to ${to} do not read back as they were written`,
      });
    },
  );

  test('a medium that breaks while it is read back is not taken for good', async () => {
    const device = blank();
    await using writer = await openWriter(device, options);
    await writer.write(image);
    await writer.checkpoint(never);
    device.failFrom('read', 1, 'EIO');
    await expect(writer.finish(never)).rejects.toMatchObject({ code: 'slot-io-error' });
  });

  test('a device that takes nothing is an error, not an endless wait', async () => {
    const device = blank();
    device.sectorsAtOnce = () => 0;
    await expect(install(device, image, options)).rejects.toMatchObject({
      code: 'slot-io-error',
      message: `${where}: takes no byte at 0`,
    });
  });

  test('a medium that ends before the checkpoint does is an error', async () => {
    const device = new CruelDevice(Buffer.alloc(blockBytes));
    const resumeAt = { sizeBytes: image.byteLength, digest: 'sha256:' };
    await expect(openWriter(device, { ...options, resumeAt })).rejects.toMatchObject({
      code: 'slot-io-error',
      message: `${where}: ends at byte ${blockBytes}`,
    });
    expect(device.openFiles).toBe(0);
  });

  test('an image that a smaller medium than promised has swallowed is found', async () => {
    const device = new CruelDevice(Buffer.alloc(4 * blockBytes));
    await expect(install(device, image, options)).rejects.toMatchObject({ code: 'slot-no-space' });
  });

  test('an unresponsive medium fails at the deadline, and no wait lasts for ever', async () => {
    const device = blank();
    device.ready = new Promise(() => {});
    const clock: Pick<Clock, 'sleep'> = { sleep: async () => new Promise((resolve) => setImmediate(resolve)) };
    await expect(install(device, image, { ...options, clock })).rejects.toMatchObject({
      code: 'slot-stalled',
      remedy: 'retry',
    });
  });
});

describe('stopping', () => {
  test('an abort ends every wait immediately with its reason, and leaves nothing open', async () => {
    const device = blank();
    const gate = Promise.withResolvers<void>();
    device.ready = gate.promise;
    const stop = new AbortController();
    const writer = await openWriter(device, { ...options, signal: stop.signal });
    const room = writer.write(image);
    const reason = new Error('the technician said stop');
    stop.abort(reason);
    await expect(room).rejects.toBe(reason);
    expect(() => writer.write(image)).toThrow(reason);
    await expect(writer.finish(never)).rejects.toBe(reason);

    const disposed = writer[Symbol.asyncDispose]();
    expect(device.openFiles).toBe(2);
    gate.resolve();
    await disposed;
    expect(device.openFiles).toBe(0);
    expect(device.closedInUse).toBe(false);
  });

  test('finish stops reading back when it is aborted', async () => {
    const device = blank();
    const stop = new AbortController();
    await using writer = await openWriter(device, options);
    await writer.write(image);
    await writer.checkpoint(never);
    const before = device.count('read');
    device.sectorsAtOnce = () => {
      stop.abort(new Error('enough'));
      return Number.POSITIVE_INFINITY;
    };
    await expect(writer.finish(stop.signal)).rejects.toThrow('enough');
    expect(device.count('read') - before).toBeLessThan(8);
  });

  test('a signal that was aborted before it was given counts too', async () => {
    await using writer = await openWriter(blank(), options);
    await expect(writer.checkpoint(AbortSignal.abort(new Error('early')))).rejects.toThrow('early');
  });

  test.each(['checkpoint', 'finish'] as const)('the signal given to %s ends it', async (method) => {
    const device = blank();
    await using writer = await openWriter(device, options);
    await writer.write(image.subarray(0, 100));
    const gate = Promise.withResolvers<void>();
    device.ready = gate.promise;
    const stop = new AbortController();
    const result = writer[method](stop.signal);
    stop.abort(new Error('enough'));
    await expect(result).rejects.toThrow('enough');
    gate.resolve();
  });

  test('a writer that is disposed unfinished starts no further write', async () => {
    const device = blank();
    const gate = Promise.withResolvers<void>();
    device.ready = gate.promise;
    const writer = await openWriter(device, options);
    await writer.write(image.subarray(0, blockBytes + 1));
    const disposed = writer[Symbol.asyncDispose]();
    gate.resolve();
    await disposed;
    await writer[Symbol.asyncDispose]();
    expect(device.openFiles).toBe(0);
    expect(device.writes()).toEqual([]);
  });

  test.each([
    ['EBUSY', 'slot-busy'],
    ['EACCES', 'slot-denied'],
    ['ENOENT', 'slot-missing'],
    ['EROFS', 'slot-read-only'],
    ['ENXIO', 'slot-disappeared'],
  ])('%s while opening is reported as %s', async (systemCode, code) => {
    const device = blank();
    device.failFrom('open', 1, systemCode);
    await expect(openWriter(device, options)).rejects.toMatchObject({
      code,
      message: `${where}: cannot open it: ${systemCode}: the device says no`,
    });
  });

  test('a device that cannot be opened a second time leaves nothing open', async () => {
    const device = blank();
    device.failFrom('open', 2, 'EMFILE');
    await expect(openWriter(device, options)).rejects.toMatchObject({ code: 'slot-io-error' });
    expect(device.openFiles).toBe(0);
  });
});
