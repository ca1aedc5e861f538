import * as realFs from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { memfs } from 'memfs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { McuError } from '../../../../src/mcu/errors.ts';
import type { BoardFs } from '../../../../src/mcu/flash/board-store.ts';
import { payloadDigest } from '../../../../src/mcu/flash/board-store.ts';
import { openPayloadFile } from '../../../../src/mcu/flash/payload-file.ts';
import { maxImageBytes } from '../../../../src/mcu/images/image.ts';
import { nodeFs } from '../../../../src/system/files/durable-file.ts';
import type { ImageClaims, PayloadOpening, PayloadWriter } from '../../../../src/update/ports.ts';

const signal = new AbortController().signal;
const bytes = Buffer.from(Array.from({ length: 3_000 }, (_, index) => (index * 7 + (index >> 8)) & 0xff));

function opening(more: Partial<PayloadOpening> = {}): PayloadOpening {
  const payload = { fileName: 'meter.hex', target: { name: 'meter' }, order: undefined };
  return { payload, sizeBytes: bytes.byteLength, resumeAt: undefined, ...more };
}

/** Faults of the files instead of a write. */
interface Cruelty {
  readonly atOnce?: number;
  readonly fullAfter?: number;
  readonly lieAt?: number;
}

/** The same file system, with files that accept less per write, end, or return other data. */
function cruel(fs: BoardFs, { atOnce = Infinity, fullAfter = Infinity, lieAt }: Cruelty): BoardFs {
  const open = async (path: string, flags: string, mode?: number): Promise<FileHandle> => {
    const file = await fs.open(path, flags, mode);
    const [write, read] = [file.write.bind(file), file.read.bind(file)];
    file.write = (async (from: Buffer, offset: number, length: number, at: number) => {
      if (at + length > fullAfter) throw Object.assign(new Error('ENOSPC: no space left'), { code: 'ENOSPC' });
      return write(from, offset, Math.min(length, atOnce), at);
    }) as FileHandle['write'];
    file.read = (async (into: Buffer, ...rest: unknown[]) => {
      const result: unknown = await Reflect.apply(read, file, [into, ...rest]);
      if (lieAt !== undefined) into[lieAt] = ~(into[lieAt] ?? 0);
      return result;
    }) as FileHandle['read'];
    return file;
  };
  return { ...fs, open };
}

const inMemory = memfs({ '/': null }).fs.promises as unknown as BoardFs;

describe.each<readonly [string, () => Promise<{ readonly fs: BoardFs; readonly root: string }>]>([
  ['in memory', async () => ({ fs: inMemory, root: '/' })],
  ['on the disk', async () => ({ fs: nodeFs, root: await realFs.mkdtemp(join(tmpdir(), 'payload-')) })],
])('the payload of a board %s', (_, make) => {
  let fs: BoardFs;
  let root: string;
  let tests = 0;
  beforeAll(async () => {
    ({ fs, root } = await make());
  });
  afterAll(async () => {
    if (root !== '/') await realFs.rm(root, { recursive: true });
  });

  const place = (): string => join(root, `boards/meter-${(tests += 1)}/payload`);
  const accept = async (): Promise<ImageClaims> => ({});

  async function writeAll(writer: PayloadWriter, chunkBytes = 700): Promise<void> {
    for (let at = 0; at < bytes.byteLength; at += chunkBytes) {
      const chunk = Uint8Array.from(bytes.subarray(at, at + chunkBytes));
      await writer.write(chunk);
      chunk.fill(0); // the caller's memory is the caller's again
    }
  }

  test.each([Infinity, 512, 1])('is stored completely if the file accepts %d bytes per write', async (atOnce) => {
    const path = place();
    const seen: Uint8Array[] = [];
    const check = async (file: Uint8Array) => ({ securityCounter: seen.push(file), imageVersion: '1.2.3' });
    await using writer = await openPayloadFile(path, opening(), check, cruel(fs, { atOnce }));
    await writeAll(writer);
    const written = await writer.finish(signal);
    const claims = { securityCounter: 1, imageVersion: '1.2.3' };
    expect(written).toEqual({ sizeBytes: 3_000, digest: payloadDigest(bytes), unchangedBytes: 0, ...claims });
    expect(bytes.equals(await fs.readFile(path))).toBe(true);
    expect(bytes.equals(seen[0] ?? Buffer.alloc(0))).toBe(true);
  });

  // Regression: EISDIR, for ever.
  test('is stored despite a directory at the path of its temporary file, which stays, and without checkpoints', async () => {
    const path = place();
    await fs.mkdir(`${path}.new`, { recursive: true });
    const resumeAt = { sizeBytes: 1_000, digest: payloadDigest(bytes.subarray(0, 1_000)) };
    await expect(openPayloadFile(path, opening({ resumeAt }), accept, fs)).rejects.toMatchObject({
      code: 'payload-stale',
    });
    await using writer = await openPayloadFile(path, opening(), accept, fs);
    await writeAll(writer);
    await writer.finish(signal);
    expect(bytes.equals(await fs.readFile(path))).toBe(true);
    await expect(fs.readFile(`${path}.new.unusable`)).rejects.not.toMatchObject({ code: 'ENOENT' });
  });

  test('gets its name only when it is complete; the previous content stays until then', async () => {
    const path = place();
    {
      await using first = await openPayloadFile(path, opening(), accept, fs);
      await first.write(Buffer.from('before'));
      await first.finish(signal);
    }
    {
      await using second = await openPayloadFile(path, opening(), accept, fs);
      await writeAll(second);
      await second.checkpoint(signal);
    }
    expect(String(await fs.readFile(path))).toBe('before');
    await using third = await openPayloadFile(path, opening(), accept, fs);
    await third.write(Buffer.from('x'));
    await third.finish(signal);
    expect(String(await fs.readFile(path))).toBe('x');
  });

  test('reports its size at a checkpoint', async () => {
    await using writer = await openPayloadFile(place(), opening(), accept, fs);
    await writer.write(bytes.subarray(0, 1_000));
    expect(await writer.checkpoint(signal)).toEqual({
      sizeBytes: 1_000,
      digest: payloadDigest(bytes.subarray(0, 1_000)),
    });
  });

  test('is rejected unless it is an image, and gets no name', async () => {
    const path = place();
    const refuse = async (): Promise<never> => {
      throw new McuError('image-malformed', 'no image');
    };
    await using writer = await openPayloadFile(path, opening(), refuse, fs);
    await writeAll(writer);
    await expect(writer.finish(signal)).rejects.toMatchObject({ code: 'image-malformed', exit: 'refused' });
    await expect(fs.readFile(path)).rejects.toMatchObject({ code: 'ENOENT' });
  });

  test('is an error with a code where the file takes no byte', async () => {
    await using writer = await openPayloadFile(place(), opening(), accept, cruel(fs, { atOnce: 0 }));
    const refused = writer.write(bytes);
    await expect(refused).rejects.toMatchObject({
      code: 'state-unavailable',
      message: expect.stringMatching(/payload\.new: the file takes no byte at 0$/) as unknown,
      cause: 'the file takes no byte at 0',
    });
  });

  test('on a full disk is a clear error', async () => {
    const path = place();
    await using writer = await openPayloadFile(path, opening(), accept, cruel(fs, { fullAfter: 2_000 }));
    await expect(writeAll(writer)).rejects.toMatchObject({ code: 'disk-full', exit: 'disk' });
  });

  test('in a file that takes nothing is an error, not an endless wait', async () => {
    await using writer = await openPayloadFile(place(), opening(), accept, cruel(fs, { atOnce: 0 }));
    await expect(writeAll(writer)).rejects.toMatchObject({ code: 'state-unavailable' });
  });

  test('that reads back differently is not taken', async () => {
    const path = place();
    await using writer = await openPayloadFile(path, opening(), accept, cruel(fs, { lieAt: 1_234 }));
    await writeAll(writer);
    await expect(writer.finish(signal)).rejects.toMatchObject({ code: 'payload-damaged' });
    await expect(fs.readFile(path)).rejects.toMatchObject({ code: 'ENOENT' });
  });

  test('larger than any such image is refused before a byte is written, promised or not', async () => {
    const tooMany = 4 * maxImageBytes + 1;
    const path = place();
    await expect(openPayloadFile(path, opening({ sizeBytes: tooMany }), accept, fs)).rejects.toMatchObject({
      code: 'image-too-large',
    });
    await using writer = await openPayloadFile(path, opening({ sizeBytes: undefined }), accept, fs);
    const block = { byteLength: tooMany } as Uint8Array;
    await expect(writer.write(block)).rejects.toMatchObject({ code: 'image-too-large' });
  });

  test('resumes from a checkpoint without later data, and is stored completely', async () => {
    const path = place();
    const resumeAt = await (async () => {
      await using cut = await openPayloadFile(path, opening(), accept, fs);
      await cut.write(bytes.subarray(0, 1_000));
      const prefix = await cut.checkpoint(signal);
      await cut.write(Buffer.alloc(500, 0xa5));
      return prefix;
    })();
    await using writer = await openPayloadFile(path, opening({ resumeAt }), accept, fs);
    await writer.write(bytes.subarray(1_000));
    expect(await writer.finish(signal)).toMatchObject({ digest: payloadDigest(bytes) });
    expect(await fs.readFile(path)).toEqual(bytes);
  });

  test('that is whole is taken as it is, once it was read', async () => {
    const path = place();
    await using first = await openPayloadFile(path, opening(), accept, fs);
    await first.write(bytes);
    const whole = await first.finish(signal);
    await using again = await openPayloadFile(path, opening({ resumeAt: whole }), accept, fs);
    expect(await again.finish(signal)).toEqual(whole);
    expect(await fs.readFile(path)).toEqual(bytes);
  });

  test.each([
    ['is not there', Buffer.alloc(0)],
    ['is shorter', bytes.subarray(0, 5)],
    ['is another', Buffer.alloc(10, 0xa5)],
  ])('starts again if the stored part %s', async (_, kept) => {
    const path = place();
    if (kept.length > 0) {
      await using cut = await openPayloadFile(path, opening(), accept, fs);
      await cut.write(kept);
    }
    const resumeAt = { sizeBytes: 10, digest: payloadDigest(bytes.subarray(0, 10)) };
    await expect(openPayloadFile(path, opening({ resumeAt }), accept, fs)).rejects.toMatchObject({
      code: 'payload-stale',
      remedy: 'retry',
    });
  });

  test('where no folder can be made is an error of the disk', async () => {
    const path = place();
    await using writer = await openPayloadFile(path, opening(), accept, fs);
    await writer.write(bytes);
    await writer.finish(signal);
    await expect(openPayloadFile(join(path, 'payload'), opening(), accept, fs)).rejects.toMatchObject({
      code: 'state-unavailable',
    });
  });
});
