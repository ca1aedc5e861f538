import { execFileSync } from 'node:child_process';
import { appendFileSync, mkdtempSync, rmSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { sourceOf } from '../../../src/firmware/file-source.ts';
import { openNamedFile } from '../../../src/system/files/opened-file.ts';
import { gathered } from './chunks.ts';
import { Bench, failureOf } from './staging.ts';

const never = new AbortController().signal;
const content = Buffer.from(Array.from({ length: 700_001 }, (_, n) => n >>> 4));
/** A whole second, so that it can be set again exactly. */
const WRITTEN_AT_S = 1_000_000;
let folder = '';
let path = '';

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'file-source-'));
  path = join(folder, 'image');
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});
beforeEach(() => {
  writeFileSync(path, content);
  utimesSync(path, WRITTEN_AT_S, WRITTEN_AT_S);
});

test('a file is given as it is, as often as wanted', async () => {
  await using file = await openNamedFile(path);
  const source = sourceOf(file);
  expect(source.form).toBe('decoded');
  for (let turn = 0; turn < 2; turn += 1) {
    await using transfer = await source.open(undefined, never);
    expect(transfer).toMatchObject({ startOffset: 0, totalBytes: content.length, validator: undefined });
    expect((await gathered(transfer.chunks)).equals(content)).toBe(true);
  }
});

test('an image in a file is staged', async () => {
  const bench = new Bench();
  await using file = await openNamedFile(path);
  await bench.stage(sourceOf(file));
  expect(bench.slot.finished?.equals(content)).toBe(true);
});

describe('a file that changes while it is read', () => {
  test.each([
    ['grows', () => appendFileSync(path, 'x')],
    ['shrinks', shrinkUnseen],
    ['is written anew', () => utimesSync(path, 1, 1)],
  ])('and %s is not a firmware image', async (_, change) => {
    await using file = await openNamedFile(path);
    await using transfer = await sourceOf(file).open(undefined, never);
    const chunks = transfer.chunks[Symbol.asyncIterator]();
    await chunks.next();
    change();
    const rest = async (): Promise<void> => {
      while ((await chunks.next()).done !== true);
    };
    expect(await failureOf(rest())).toMatchObject({ code: 'file-changed', remedy: 'retry', exit: 'tryAgain' });
  });
});

function shrinkUnseen(): void {
  truncateSync(path, 650_000);
  utimesSync(path, WRITTEN_AT_S, WRITTEN_AT_S);
}

test('an unreadable file is rejected without waiting', async () => {
  const pipe = join(folder, 'pipe');
  execFileSync('mkfifo', [pipe]);
  for (const wrong of [join(folder, 'missing'), folder, pipe]) {
    const failure = await failureOf(openNamedFile(wrong));
    expect(failure).toMatchObject({ code: 'file-unreadable', exit: 'usage' });
    expect(failure?.message).toContain(wrong);
  }
});

test('an aborted signal ends it with its reason', async () => {
  const controller = new AbortController();
  await using file = await openNamedFile(path);
  await using transfer = await sourceOf(file).open(undefined, controller.signal);
  controller.abort(new Error('stop'));
  await expect(gathered(transfer.chunks)).rejects.toThrow('stop');
});
