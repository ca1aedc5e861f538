import { chmod, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, describe, expect, test } from 'vitest';

import { runProgram } from '../src/system/processes/child-process.ts';
import { folderUntilTestEnds } from './until-test-ends.ts';

const script = join(import.meta.dirname, 'install-packages');
let programs: string;

beforeEach(async () => {
  programs = folderUntilTestEnds();
  await pretend('id', 'echo 0');
  await pretend('promtool', 'exit 0');
});

/** Puts a program in front of the machine's own. */
async function pretend(name: string, body: string): Promise<void> {
  await writeFile(join(programs, name), `#!/bin/sh\n${body}\n`);
  await chmod(join(programs, name), 0o755);
}

/** A dpkg-query that knows all packages except these. */
async function pretendMissing(...missing: readonly string[]): Promise<void> {
  const answer = `for p in "$@"; do case "$p" in -*) ;; ${missing.join(' | ') || 'none'}) echo "not-installed $p" ;;`;
  await pretend('dpkg-query', `${answer} *) echo "installed $p" ;; esac; done`);
}

/** An apt-get that records its arguments, in `$w` too, and continues with the body. */
async function pretendApt(body: string): Promise<void> {
  await pretend(
    'apt-get',
    `case "$*" in *install*) w=install ;; *) w=update ;; esac; echo "$w" >> ${programs}/asked; ${body}`,
  );
}

async function asked(): Promise<string> {
  return readFile(join(programs, 'asked'), 'utf8').catch(() => '');
}

async function runScript(env: Readonly<Record<string, string>> = {}) {
  const options = {
    timeoutMs: 20_000,
    env: { PATH: `${programs}:${process.env['PATH'] ?? ''}`, OFFLINE: '0', ...env },
  };
  const { exitCode, stdout, stderr } = await runProgram([script], options, AbortSignal.timeout(30_000));
  return { exitCode, said: stdout + stderr };
}

describe('test/install-packages', () => {
  test('does and prints nothing if everything is installed', async () => {
    await pretendMissing();
    await pretendApt('exit 1');
    expect(await runScript()).toEqual({ exitCode: 0, said: '' });
    expect(await asked()).toBe('');
  });

  test('installs what is missing, without fetching lists first', async () => {
    await pretendMissing('zstd', 'tmux');
    await pretendApt(`echo "$*" > ${programs}/arguments`);
    expect(await runScript()).toEqual({ exitCode: 0, said: 'test/install-packages: installing tmux zstd\n' });
    expect(await asked()).toBe('install\n');
    expect(await readFile(join(programs, 'arguments'), 'utf8')).toMatch(
      / install -y --no-install-recommends tmux zstd\n$/,
    );
  });

  test('extracts only promtool from the package of Debian 12, whose service is unwanted', async () => {
    await pretendMissing();
    await pretendApt(`case "$*" in *promtool) exit 1; esac; echo "$*" > ${programs}/arguments; : > prometheus_1.deb`);
    await pretend('dpkg-deb', `echo "$1 $(basename "$2")" >> ${programs}/placed`);
    await pretend('install', `echo "$2 $(basename "$3") $4" >> ${programs}/placed`);
    await rm(join(programs, 'promtool'));
    for (const tool of ['sh', 'sed', 'mktemp', 'rm', 'cat', 'basename'])
      await symlink(`/usr/bin/${tool}`, join(programs, tool));
    expect(await runScript({ PATH: programs })).toEqual({
      exitCode: 0,
      said: 'test/install-packages: installing prometheus\n',
    });
    expect(await readFile(join(programs, 'arguments'), 'utf8')).toMatch(/ download prometheus\n$/);
    expect(await readFile(join(programs, 'placed'), 'utf8')).toBe(
      '-x prometheus_1.deb\n755 promtool /usr/local/bin/promtool\n',
    );
  });

  test('fetches lists where it does not go without', async () => {
    await pretendMissing('zstd');
    await pretendApt(`if [ $w = update ]; then : > ${programs}/lists; else [ -e ${programs}/lists ]; fi`);
    expect((await runScript()).exitCode).toBe(0);
    expect(await asked()).toBe('install\nupdate\ninstall\n');
  });

  test('shows the output of apt-get after a failure', async () => {
    await pretendMissing('zstd');
    await pretendApt('echo "E: no route to the archive" >&2; exit 100');
    const { exitCode, said } = await runScript();
    expect(exitCode).toBe(1);
    expect(said).toContain('E: no route to the archive\ntest/install-packages: could not install zstd\n');
  });

  const oneLine = 'test/install-packages: the tests need: apt-get install --no-install-recommends zstd\n';

  test('names in one line what is missing where it may not install', async () => {
    await pretendMissing('zstd');
    await pretendApt('exit 0');
    await pretend('id', 'echo 1000');
    expect(await runScript()).toEqual({ exitCode: 1, said: oneLine });
    expect(await asked()).toBe('');
  });

  test('fetches nothing offline', async () => {
    await pretendMissing('zstd');
    await pretendApt('exit 0');
    expect(await runScript({ OFFLINE: '1' })).toEqual({ exitCode: 1, said: oneLine });
    expect(await asked()).toBe('');
  });
});
