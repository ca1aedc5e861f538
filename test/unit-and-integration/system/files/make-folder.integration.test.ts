import { lstat, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { makeFolder } from '../../../../src/system/files/make-folder.ts';

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'made-'));
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

test('a directory is made with its missing parents, and an existing one stays unchanged', async () => {
  const path = join(folder, 'a/b/c');
  await makeFolder(path, 0o750);
  for (const made of ['a', 'a/b', 'a/b/c']) expect((await lstat(join(folder, made))).mode & 0o777).toBe(0o750);
  await makeFolder(path, 0o700);
  expect((await lstat(path)).mode & 0o777).toBe(0o750);
});

test('many callers may make the same directory concurrently', async () => {
  await Promise.all(Array.from({ length: 50 }, async () => makeFolder(join(folder, 'x/y/z'), 0o700)));
  expect((await lstat(join(folder, 'x/y/z'))).isDirectory()).toBe(true);
});

test('a link to a directory is accepted, and a file is rejected', async () => {
  await symlink(folder, join(folder, 'link'));
  await makeFolder(join(folder, 'link/inner'), 0o700);
  expect((await lstat(join(folder, 'inner'))).isDirectory()).toBe(true);
  await writeFile(join(folder, 'file'), '');
  await expect(makeFolder(join(folder, 'file'), 0o700)).rejects.toMatchObject({ code: 'EEXIST' });
  await expect(makeFolder(join(folder, 'file/below'), 0o700)).rejects.toMatchObject({ code: 'ENOTDIR' });
});

// Regression: a state directory below /proc kept a processor busy for ever, and SIGTERM did not end that.
test('a place that takes no folders is refused', async () => {
  await expect(makeFolder('/proc/thing-agent/state', 0o700)).rejects.toMatchObject({ code: 'ENOENT' });
});
