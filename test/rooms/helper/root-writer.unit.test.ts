import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { takeFile } from '../../../src/helper/root-writer.ts';

let folder: string;
let file: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'writer-'));
  file = join(folder, 'gw.tar.gz');
});
afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

/** A file as the writer gets it, in chunks that cut its length. */
function sent(text: string, lengthBytes = Buffer.byteLength(text)): Readable {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(lengthBytes);
  return Readable.from([length.subarray(0, 3), Buffer.concat([length.subarray(3), Buffer.from(text)])]);
}

test('the writer writes what came whole, and replaces only what it may', async () => {
  expect(await takeFile([file, 'new'], sent('one'))).toBe('written');
  expect(await takeFile([file, 'new'], sent('two'))).toBe(`exists ${file} exists`);
  expect(await readFile(file, 'utf8')).toBe('one');
  expect(await takeFile([file, 'replace'], sent('two'))).toBe('written');
  expect(await readFile(file, 'utf8')).toBe('two');
  expect(await readdir(folder)).toEqual(['gw.tar.gz']);
});

test('the writer leaves everything as it was if what comes is cut, too long, or late', async () => {
  await writeFile(file, 'precious');
  const whole = 'EIO it did not come whole';
  expect(await takeFile([file, 'replace'], Readable.from([]))).toBe(whole);
  expect(await takeFile([file, 'replace'], Readable.from([Buffer.alloc(3)]))).toBe(whole);
  expect(await takeFile([file, 'replace'], sent('one', 4))).toBe(whole);
  expect(await takeFile([file, 'replace'], sent('one', 2))).toBe(whole);
  const endless = Readable.from(
    (function* () {
      for (;;) yield Buffer.alloc(1024 * 1024);
    })(),
  );
  expect(await takeFile([file, 'replace'], endless)).toMatch(/^EIO it is longer than/);
  const silent = new PassThrough();
  silent.write('1');
  expect(await takeFile([file, 'replace'], silent, 1)).toMatch(/^ABORT_ERR /);
  expect(await readFile(file, 'utf8')).toBe('precious');
  expect(await readdir(folder)).toEqual(['gw.tar.gz']);
});

test('the writer says why a file cannot be written', async () => {
  expect(await takeFile([join(folder, 'none/gw.tgz'), 'new'], sent('one'))).toMatch(/^ENOENT ENOENT: no such file/);
});
