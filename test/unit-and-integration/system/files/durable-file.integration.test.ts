import { execFileSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';

import { beforeEach, expect, test } from 'vitest';

import { readDurableTextFile, readTextFile, replaceFileDurably } from '../../../../src/system/files/durable-file.ts';
import { publishFile } from '../../../../src/system/files/published-file.ts';
import { folderUntilTestEnds } from '../../../until-test-ends.ts';

let folder = '';
let path = '';

beforeEach(() => {
  folder = folderUntilTestEnds();
  path = join(folder, 'journal.json');
});

/** Typed, as vitest's own is not. */
const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

const readers = { readTextFile, readDurableTextFile };

const strangers: Readonly<Record<string, (at: string) => void>> = {
  'a pipe': (at) => execFileSync('mkfifo', [at]),
  'a device without an end': (at) => execFileSync('mknod', [at, 'c', '1', '5']),
  'a link to a device': (at) => symlinkSync('/dev/zero', at),
  'a link to a file': (at) => {
    writeFileSync(join(folder, 'other'), 'of somebody else');
    symlinkSync('other', at);
  },
  'a folder': (at) => execFileSync('mkdir', [at]),
};

for (const [what, make] of Object.entries(strangers)) {
  test.each(Object.entries(readers))(`${what} instead of a state file is reported immediately: %s`, async (_, read) => {
    make(path);
    await expect(read(path)).rejects.toMatchObject({
      code: 'state-unavailable',
      message: matching(/journal\.json: it is not a regular file$/),
    });
  });
}

test.each(Object.entries(readers))('a state file is read to a bound: %s', async (_, read) => {
  writeFileSync(path, '{}');
  expect(await read(path)).toBe('{}');
  truncateSync(path, 2 ** 40);
  await expect(read(path)).rejects.toMatchObject({ code: 'state-unavailable', message: matching(/it is longer than/) });
});

test.each(['a pipe', 'a device without an end', 'a link to a file'])(
  '%s where the draft is to be is removed, neither followed nor waited for',
  async (what) => {
    writeFileSync(join(folder, 'other'), 'of somebody else');
    strangers[what]?.(`${path}.new`);
    await replaceFileDurably(path, 'new');
    expect(lstatSync(path).isFile()).toBe(true);
    expect(readFileSync(path, 'utf8')).toBe('new');
    expect(readFileSync(join(folder, 'other'), 'utf8')).toBe('of somebody else');
  },
);

const writers = { replaceFileDurably, publishFile };

// Regression: with a directory at journal.json.new, no event could be written any longer.
test.each(Object.entries(writers))(
  'a folder where the draft is to be is moved aside with what is in it: %s',
  async (_, write) => {
    mkdirSync(`${path}.new/within`, { recursive: true });
    writeFileSync(`${path}.new/within/text`, 'of somebody else');
    await write(path, 'new');
    expect(readFileSync(path, 'utf8')).toBe('new');
    expect(readFileSync(`${path}.new.unusable/within/text`, 'utf8')).toBe('of somebody else');
  },
);

test('the sixth directory at the path of the temporary file stays, which is reported, and the five before it are kept', async () => {
  for (let number = 1; number <= 5; number += 1) {
    mkdirSync(`${path}.new`);
    await replaceFileDurably(path, `${number}`);
  }
  mkdirSync(`${path}.new`);
  const before = readdirSync(folder);
  await expect(replaceFileDurably(path, '6')).rejects.toMatchObject({
    code: 'state-unavailable',
    message: matching(/journal\.json\.new: .*5 such/),
    advice: matching(/remove them/),
  });
  expect(readdirSync(folder)).toEqual(before);
  expect(readFileSync(path, 'utf8')).toBe('5');
  expect(existsSync(`${path}.new`)).toBe(true);
});
