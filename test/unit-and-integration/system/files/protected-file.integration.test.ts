import { execFile } from 'node:child_process';
import { chmod, chown, mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';

import { findExposures, readProtectedFile } from '../../../../src/system/files/protected-file.ts';
import { runProgram } from '../../../../src/system/processes/child-process.ts';
import { execStreamSource } from '../../../../src/telemetry/sources/exec.ts';
import { howMuch } from '../../../full.ts';
import { folderUntilTestEnds } from '../../../until-test-ends.ts';

const STRANGER = 65_534;
const signal = new AbortController().signal;
let base = '';

beforeEach(async () => {
  base = folderUntilTestEnds();
  await chmod(base, 0o755);
});

/**
 * Attacks as another user, in order to change the content: makes the user's own files writable, writes, replaces the file, then
 * its directories.
 */
const attack = `
  key=$1; folder=\${key%/*}; upper=\${folder%/*}
  chmod 777 "$upper" "$folder" "$key"
  echo evil > "$key" || { rm -f "$key" && echo evil > "$key"; } && exit
  mv "$folder" "$folder.old" && mkdir "$folder" && echo evil > "$key" && exit
  mv "$upper" "$upper.old" && mkdir -p "$folder" && echo evil > "$key"`;

test('a file that another user managed to replace had been rejected before', { timeout: 120_000 }, async () => {
  const owner = fc.constantFrom(0, STRANGER);
  const folderMode = fc.constantFrom(0o755, 0o775, 0o777, 0o1777, 0o757);
  const place = fc.record({ uid: owner, gid: owner, mode: folderMode });
  const fileMode = fc.constantFrom(0o644, 0o664, 0o646, 0o400);
  let [replaced, trusted] = [0, 0];
  await fc.assert(
    fc.asyncProperty(
      place,
      place,
      fc.record({ uid: owner, gid: owner, mode: fileMode }),
      async (upper, folder, file) => {
        const root = await mkdtemp(join(base, 'case-'));
        await chmod(root, 0o755);
        const paths = [join(root, 'upper'), join(root, 'upper/folder'), join(root, 'upper/folder/key')] as const;
        await mkdir(paths[1], { recursive: true });
        await writeFile(paths[2], 'good\n');
        for (const [index, { uid, gid, mode }] of [upper, folder, file].entries()) {
          await chown(paths[index] ?? '', uid, gid);
          await chmod(paths[index] ?? '', mode);
        }
        const isTrusted = (await findExposures(paths[2])).length === 0;
        const stranger = { uid: STRANGER, gid: STRANGER };
        await promisify(execFile)('sh', ['-c', attack, 'sh', paths[2]], stranger).catch(() => {}); // it may fail
        const isReplaced = (await readFile(paths[2], 'utf8')) !== 'good\n';
        expect(isTrusted && isReplaced).toBe(false);
        replaced += Number(isReplaced);
        trusted += Number(isTrusted);
      },
    ),
    {
      numRuns: howMuch(120, 50),
      examples: [
        [open, open, fileOfRoot],
        [closed, closed, fileOfRoot],
      ],
    },
  );
  expect(replaced, 'attacks that worked').toBeGreaterThan(0);
  expect(trusted, 'files that were trusted').toBeGreaterThan(0);
});

const open = { uid: 0, gid: 0, mode: 0o777 };
const closed = { uid: 0, gid: 0, mode: 0o755 };
const fileOfRoot = { uid: 0, gid: 0, mode: 0o644 };

test('a key that others may write is not read', async () => {
  const key = join(base, 'key');
  await writeFile(key, 'key');
  expect(String(await readProtectedFile(key, { maxBytes: 10 }))).toBe('key');
  await chmod(key, 0o622);
  await expect(readProtectedFile(key, { maxBytes: 10 })).rejects.toMatchObject({
    code: 'writable-by-others',
    message: `${key} is not trusted: ${key} can be changed by anyone; fix it with: chmod go-w ${key}`,
  });
});

test('a program that other users may write runs with the rights of its user, not with the agent’s', async () => {
  const program = join(base, 'program');
  await writeFile(program, '#!/bin/sh\necho ran\n');
  await chmod(program, 0o755);
  expect((await runProgram([program], { timeoutMs: 20_000 }, signal)).stdout).toBe('ran\n');
  await chmod(program, 0o775);
  const refusal = { code: 'writable-by-others' };
  await expect(runProgram([program], { timeoutMs: 20_000 }, signal)).rejects.toMatchObject(refusal);
  const intake = { connected: () => {}, take: () => {}, drop: () => {}, rest: async () => {} };
  await expect(execStreamSource({ command: [program] }).run(intake, signal)).rejects.toMatchObject(refusal);
  expect((await runProgram([program], { timeoutMs: 20_000, user: 'nobody' }, signal)).stdout).toBe('ran\n');
});

describe('a script', () => {
  const refusal = { code: 'writable-by-others' };

  async function interpreter(): Promise<string> {
    await mkdir(join(base, 'bin'));
    const path = join(base, 'bin/python');
    await writeFile(path, await readFile('/bin/sh'));
    await chmod(path, 0o755);
    return path;
  }

  test.each([
    ['its path', (path: string) => `#! ${path} -e`],
    ['a name that env looks for', () => '#!/usr/bin/env -S A=b python -e'],
  ])('is not run where others may write its interpreter, named by %s', async (_, firstLine) => {
    const path = await interpreter();
    const program = join(base, 'program');
    await writeFile(program, `${firstLine(path)}\necho ran\n`);
    await chmod(program, 0o755);
    const searched = process.env['PATH'];
    process.env['PATH'] = `${join(base, 'bin')}:${searched}`;
    try {
      expect((await runProgram([program], { timeoutMs: 20_000 }, signal)).stdout).toBe('ran\n');
      await chmod(path, 0o757);
      await expect(runProgram([program], { timeoutMs: 20_000 }, signal)).rejects.toMatchObject(refusal);
      await chmod(path, 0o755);
      await chmod(join(base, 'bin'), 0o777);
      await expect(runProgram([program], { timeoutMs: 20_000 }, signal)).rejects.toMatchObject(refusal);
    } finally {
      process.env['PATH'] = searched;
    }
  });
});
