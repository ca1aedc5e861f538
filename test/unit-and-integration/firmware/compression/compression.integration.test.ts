import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readdir, readFile, readlink, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { decompress, detectCompression } from '../../../../src/firmware/compression/compression.ts';
import type { Compression } from '../../../../src/firmware/compression/compression.ts';
import { decompressWithXz } from '../../../../src/firmware/compression/xz-stream.ts';
import { gathered, inChunks } from '../chunks.ts';
import { LinkLost, broken } from '../sources.ts';
import { failureOf } from '../staging.ts';

/** Output of the real programs, decompressed by us. */
const run = promisify(execFile);
const never = new AbortController().signal;
const content = Buffer.concat([randomBytes(700_000), Buffer.alloc(2_000_000), randomBytes(300_000)]);
let folder = '';
let packedXz: Buffer = Buffer.alloc(0);

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'compression-'));
  await writeFile(join(folder, 'content'), content);
  packedXz = await packedBy('xz', '-0');
});
afterAll(async () => {
  await rm(folder, { recursive: true });
});

async function packedBy(program: string, ...words: readonly string[]): Promise<Buffer> {
  const { stdout } = await run(program, [...words, '-c', 'content'], {
    cwd: folder,
    encoding: 'buffer',
    maxBuffer: 16 * 1024 * 1024,
  });
  return stdout;
}

async function unpack(bytes: Uint8Array, kind: Compression = detectCompression(bytes)): Promise<Buffer> {
  return gathered(decompress(kind, inChunks(bytes, [65_536, 1, 7000]), never));
}

test.each([
  ['gzip', '-1'],
  ['gzip', '-9'],
  ['zstd', '-1'],
  ['zstd', '-19', '--no-check'],
  ['zstd', '-3', '-T2', '--long=25'],
  ['xz', '-0'],
  ['xz', '-9e'],
  ['xz', '-T2', '--block-size=500KiB', '--check=sha256'],
])('%s %s is taken', async (program, ...words) => {
  const packed = await packedBy(program, ...words);
  expect(detectCompression(packed)).toBe(program);
  expect((await unpack(packed)).equals(content)).toBe(true);
});

test.each(['gzip', 'zstd', 'xz'])('two of %s one behind the other are one content', async (program) => {
  const packed = await packedBy(program, '-1');
  const twice = await unpack(Buffer.concat([packed, packed]));
  expect(twice.equals(Buffer.concat([content, content]))).toBe(true);
});

test('zstd --long=27 needs too much memory', async () => {
  // From a pipe: the size of the content is unknown, so the window is the requested one.
  const { stdout } = await run('sh', ['-c', 'cat content content | zstd --long=27 -c'], {
    cwd: folder,
    encoding: 'buffer',
    maxBuffer: 16 * 1024 * 1024,
  });
  expect(await failureOf(unpack(stdout))).toMatchObject({ code: 'compression-memory' });
});

describe('xz', () => {
  test('reports a truncated stream', async () => {
    const packed = packedXz;
    const failure = await failureOf(unpack(packed.subarray(0, packed.length - 1), 'xz'));
    expect(failure).toMatchObject({ code: 'compression-truncated', remedy: 'retry' });
    expect(failure?.message).toBe(`xz stream, byte ${packed.length - 1}: Unexpected end of input`);
  });

  test('that is damaged, or followed by something else, is corrupt', async () => {
    const packed = packedXz;
    const damaged = Buffer.from(packed);
    damaged[packed.length >>> 1] = (damaged[packed.length >>> 1] ?? 0) ^ 1;
    expect(await failureOf(unpack(damaged))).toMatchObject({ code: 'compression-corrupt', exit: 'protocol' });
    const followed = Buffer.concat([packed, Buffer.from('something longer than a stream header')]);
    expect(await failureOf(unpack(followed))).toMatchObject({ code: 'compression-corrupt' });
    expect(await failureOf(unpack(Buffer.from('no xz at all'), 'xz'))).toMatchObject({ code: 'compression-corrupt' });
  });

  test('that would need too much memory is refused', async () => {
    const packed = await packedBy('xz', '--lzma2=preset=0,dict=256MiB');
    expect(await failureOf(unpack(packed))).toMatchObject({ code: 'compression-memory' });
  });

  test('without the program names the package to install', async () => {
    const bytes = inChunks(packedXz, [1000]);
    const failure = await failureOf(gathered(decompressWithXz(bytes, never, join(folder, 'no-such-program'))));
    expect(failure).toMatchObject({ code: 'xz-missing', exit: 'failed' });
    expect(failure?.advice).toContain('xz-utils');
  });

  test('may take its time to exit after its output has ended', async () => {
    const slow = join(folder, 'slow-xz');
    await writeFile(slow, '#!/bin/sh\nxz "$@"\nexec >&-\nsleep 0.3\n', { mode: 0o755 });
    const unpacked = await gathered(decompressWithXz(inChunks(packedXz, [65_536]), never, slow));
    expect(unpacked.equals(content)).toBe(true);
  });

  test('lets what its source throws through, and leaves no process behind', async () => {
    const packed = packedXz;
    const source = broken(inChunks(packed, [10_000]), packed.length / 2);
    await expect(gathered(decompress('xz', source, never))).rejects.toBeInstanceOf(LinkLost);
    await expect.poll(xzChildren).toEqual([]);
  });

  test('ends with its process when the consumer stops, or the signal aborts', async () => {
    const packed = packedXz;
    const before = (await readdir('/proc/self/fd')).length;
    for (let times = 0; times < 20; times += 1) {
      for await (const chunk of decompress('xz', inChunks(packed, [10_000]), never)) if (chunk.length > 0) break;
    }
    await expect.poll(xzChildren).toEqual([]);
    // Regression, found by the fuzzer: each left an unused pipe open.
    await expect.poll(async () => (await readdir('/proc/self/fd')).length).toBeLessThan(before + 10);

    const controller = new AbortController();
    const reason = new Error('stop');
    async function* silent(): AsyncGenerator<Uint8Array, void, undefined> {
      yield packed.subarray(0, 400_000);
      controller.abort(reason);
      await new Promise(() => {});
    }
    await expect(gathered(decompress('xz', silent(), controller.signal))).rejects.toBe(reason);
    await expect.poll(xzChildren).toEqual([]);
  });
});

/** Processes of the program xz that this process has started and that run. */
async function xzChildren(): Promise<string[]> {
  const children = await readFile(`/proc/self/task/${process.pid}/children`, 'utf8');
  const programs = children
    .trim()
    .split(' ')
    .map(async (pid) => {
      try {
        return await readlink(`/proc/${pid}/exe`);
      } catch {
        return '';
      }
    });
  return (await Promise.all(programs)).filter((program) => program.endsWith('/xz'));
}
