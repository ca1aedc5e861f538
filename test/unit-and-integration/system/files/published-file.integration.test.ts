import { execFile } from 'node:child_process';
import { lstat, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { beforeEach, expect, test } from 'vitest';

import { publishFile } from '../../../../src/system/files/published-file.ts';
import { folderUntilTestEnds } from '../../../until-test-ends.ts';

const run = promisify(execFile);

let folder: string;

beforeEach(() => {
  folder = folderUntilTestEnds();
});

test('a file is written, and written again, for everybody to read', async () => {
  const path = join(folder, 'agent.prom');
  for (const text of ['old\n', 'new\n']) {
    await publishFile(path, text);
    expect(await readFile(path, 'utf8')).toBe(text);
    expect((await lstat(path)).mode & 0o777).toBe(0o644);
  }
});

// Regression: the null device of a machine was a file afterwards.
test('a device, a pipe or a directory at its path is not replaced', async () => {
  const path = (name: string): string => join(folder, name);
  await run('mknod', [path('device'), 'c', '1', '3']);
  await run('mkfifo', [path('pipe')]);
  await mkdir(path('folder'));
  for (const name of ['device', 'pipe', 'folder']) {
    const before = await lstat(path(name));
    await expect(publishFile(path(name), 'text')).rejects.toMatchObject({ code: 'state-unavailable' });
    expect((await lstat(path(name))).ino).toBe(before.ino);
  }
});

test('a link is replaced, and its target stays unchanged', async () => {
  await writeFile(join(folder, 'target'), 'kept');
  await symlink(join(folder, 'target'), join(folder, 'link'));
  await publishFile(join(folder, 'link'), 'new');
  expect(await readFile(join(folder, 'target'), 'utf8')).toBe('kept');
  expect(await readFile(join(folder, 'link'), 'utf8')).toBe('new');
});
