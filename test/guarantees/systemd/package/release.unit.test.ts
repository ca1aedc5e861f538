import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { describe, expect, onTestFinished, test, vi } from 'vitest';

import {
  checksums,
  differing,
  missingFrom,
  notesOf,
  requireUnused,
  signedTags,
  signingProblemOf,
} from '../../../../systemd/make/release.ts';

const run = promisify(execFile);

const ready = {
  version: '1.2.0',
  lockVersion: '1.2.0',
  changelog:
    '# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-11-27\n\n### Added\n\n- One.\n\n## [1.1.0] - 2026-10-01\n',
  tags: ['v1.2.0'],
  changedFiles: [],
  signingProblem: undefined,
};

// Regression: a dry run removed the directory that --out named, with everything in it.
test('a release is not put into a directory that holds something', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'release-'));
  onTestFinished(async () => rm(folder, { recursive: true }));
  await requireUnused(folder);
  await requireUnused(join(folder, 'new'));
  await writeFile(join(folder, 'precious.txt'), 'mine');
  await expect(requireUnused(folder)).rejects.toThrow(`${folder} is not empty`);
});

describe('missingFrom', () => {
  test('finds nothing if the release is ready', () => {
    expect(missingFrom(ready)).toEqual([]);
  });

  test.each([
    [{ version: '1.2.0-rc.1' }, 'is not a version to release'],
    [{ lockVersion: '1.1.0' }, 'package-lock.json is for 1.1.0'],
    [{ changelog: '## [Unreleased]\n\n- One.\n' }, 'CHANGELOG.md has no section "## [1.2.0] - YYYY-MM-DD"'],
    [{ changelog: '## [1.2.0] - soon\n\n- One.\n' }, 'CHANGELOG.md has no section "## [1.2.0] - YYYY-MM-DD"'],
    [{ changelog: '## [1.2.0] - 2026-11-27\n\n## [1.1.0] - 2026-10-01\n\n- One.\n' }, 'is empty'],
    [{ tags: ['v1.1.0'] }, 'this commit has no signed tag v1.2.0'],
    [{ changedFiles: ['src/main.ts'] }, 'uncommitted changes: src/main.ts'],
    [{ signingProblem: 'no signing key' }, 'no signing key'],
  ])('with %j reports "%s"', (change, expected) => {
    expect(missingFrom({ ...ready, ...change }).join('\n')).toContain(expected);
  });
});

// Regression: a release accepted an unsigned tag, although its advice was to sign it.
test('signedTags returns the tags of the present commit that have a signature', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tags-'));
  onTestFinished(async () => rm(folder, { recursive: true }));
  const signer = join(folder, 'signer');
  const signature = '-----BEGIN PGP SIGNATURE-----\n\nx\n-----END PGP SIGNATURE-----';
  const program = `#!/bin/sh\ncat > /dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\necho '${signature}'\n`;
  await writeFile(signer, program, { mode: 0o755 });
  const settings = { 'gpg.program': signer, 'user.name': 'a', 'user.email': 'a@example.com' };
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const git = async (...words: string[]): Promise<unknown> => run('git', ['-C', folder, ...flags, ...words]);
  await git('init', '--quiet');
  await git('commit', '--quiet', '--allow-empty', '--no-gpg-sign', '-m', 'one');
  await git('tag', '-s', 'v1.0.0', '-m', '1.0.0');
  await git('commit', '--quiet', '--allow-empty', '--no-gpg-sign', '-m', 'two');
  await git('tag', 'light');
  await git('tag', '-a', 'v1.1.0', '-m', '1.1.0');
  expect(await signedTags(folder)).toEqual([]);
  await git('tag', '-s', 'v1.2.0', '-m', '1.2.0');
  expect(await signedTags(folder)).toEqual(['v1.2.0']);
});

test('signingProblemOf names a key that cannot sign', async () => {
  const home = await mkdtemp(join(tmpdir(), 'gnupg-'));
  vi.stubEnv('GNUPGHOME', home);
  try {
    expect(await signingProblemOf('missing@example.com')).toMatch(/^the key missing@example\.com cannot sign .*: ./);
  } finally {
    vi.unstubAllEnvs();
    await rm(home, { recursive: true, force: true });
  }
});

test('notesOf returns the section of one version', () => {
  expect(notesOf(ready.changelog, '1.2.0')).toBe('### Added\n\n- One.');
  expect(notesOf(ready.changelog, '1.1.0')).toBe('');
  expect(notesOf(ready.changelog, '1.2')).toBeUndefined();
});

test('differing names changed files, and files that only one build has', () => {
  const first = new Map(Object.entries({ same: '1', changed: '1', first: '1' }));
  const second = new Map(Object.entries({ second: '1', same: '1', changed: '2' }));
  expect(differing(first, second)).toEqual(['changed', 'first', 'second']);
});

test('checksums are in the form of sha256sum', () => {
  expect(checksums(new Map([['a.deb', 'ab12']]))).toBe('ab12  a.deb\n');
});
