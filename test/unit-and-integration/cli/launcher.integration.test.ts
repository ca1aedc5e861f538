import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chown, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { beforeEach, expect, test } from 'vitest';

import { folderUntilTestEnds } from '../../until-test-ends.ts';

const run = promisify(execFile);
const launcher = new URL('../../../agent', import.meta.url).pathname;

let folder: string;
beforeEach(() => {
  folder = folderUntilTestEnds();
});

/** Uses a separate home directory, which is not allowed for root's compiled code. */
async function version(env: Readonly<Record<string, string>>): Promise<string> {
  const { stdout } = await run(launcher, ['--version'], { env: { PATH: process.env['PATH'], HOME: folder, ...env } });
  return stdout;
}

// Regression: with NODE_CHANNEL_FD=3 the program was aborted after it had answered.
test('the user who starts the agent has no influence on Node’s environment', async () => {
  const { stdout } = await run(process.execPath, ['--help']);
  const named =
    stdout.slice(stdout.indexOf('Environment variables:')).match(/^(NODE|UV|SSL|OPENSSL)_[A-Z0-9_]+/gm) ?? [];
  expect(named).toContain('NODE_EXTRA_CA_CERTS');
  const [cleared = ''] = /^unset (.*\\\n)*.*$/m.exec(await readFile(launcher, 'utf8')) ?? [];
  expect(cleared.split(/\s+/)).toEqual(expect.arrayContaining([...named, 'OPENSSL_CONF', 'NODE_OPTIONS']));
  const planted = { NODE_CHANNEL_FD: '3', NODE_CHANNEL_SERIALIZATION_MODE: 'advanced', NODE_UNIQUE_ID: '1' };
  expect(await version({ ...planted, NODE_V8_COVERAGE: join(folder, 'coverage') })).toMatch(/^agent /);
  expect(existsSync(join(folder, 'coverage'))).toBe(false);
});

// Regression: SIGUSR1 opened a debugger of root's program for every local user.
test('is opened to no debugger by a signal', async () => {
  const agent = spawn(launcher, ['setup', '--config', join(folder, 'config.toml')], {
    stdio: ['pipe', 'ignore', 'pipe'],
  });
  const ended = once(agent, 'close');
  let said = '';
  agent.stderr.setEncoding('utf8').on('data', (piece: string) => (said += piece));
  await once(agent.stderr, 'data');
  agent.kill('SIGUSR1');
  agent.stdin.end();
  await ended;
  expect(said).not.toMatch(/debugger/i);
});

// Regression: every command, --version too, ended with 70 and "unexpected failure: ENOENT: process.cwd failed".
test.each([
  { typed: ['--version'], exitCode: 0, says: /^agent / },
  { typed: ['explain', 'tls-unknown-ca'], exitCode: 0, says: /authority/ },
  { typed: ['info', '/nowhere/x.mender'], exitCode: 64, says: /^agent: cannot read .nowhere.x\.mender/ },
  { typed: ['info', 'x.mender'], exitCode: 64, says: /^agent: info: the working directory is gone.* x\.mender / },
])('in a working directory that was removed: agent $typed', async ({ typed, exitCode, says }) => {
  const away = ['-c', 'cd "$(mktemp -d)" && rmdir "$PWD" && exec "$@" 2>&1', 'sh', launcher, ...typed];
  const ended = await run('sh', away, { env: { PATH: process.env['PATH'], HOME: folder, TMPDIR: folder } }).then(
    ({ stdout }) => ({ code: 0, stdout }),
    (error: unknown) => error as { readonly code: number; readonly stdout: string },
  );
  const [, text = ''] = /^(?:sh: .*getcwd.*\n)?([^]*)$/.exec(ended.stdout) ?? []; // dash itself reports that it is gone
  expect([ended.code, text]).toEqual([exitCode, expect.stringMatching(says)]);
});

// Regression: an image in the user's directory was searched for in the project's directory.
test('npm run delta takes its files from where it is called', async () => {
  const project = new URL('../../..', import.meta.url).pathname;
  const typed = ['--prefix', project, 'run', '--silent', 'delta', '--', 'old.img', 'new.img', '--name', '2'];
  const called = run('npm', [...typed, '--device-type', 'gw'], { cwd: folder });
  await expect(called).rejects.toMatchObject({ stderr: expect.stringContaining(join(folder, 'old.img')) as unknown });
});

test('npm run delta --json FILE writes JSON to that file, and prints the sizes', async () => {
  for (const image of ['a.img', 'b.img']) await writeFile(join(folder, image), Buffer.alloc(65_536, image));
  const project = new URL('../../..', import.meta.url).pathname;
  const typed = ['a.img', 'b.img', '--name', '2', '--device-type', 'gw', '--json', 'figures.json'];
  const { stdout } = await run('npm', ['--prefix', project, 'run', '--silent', 'delta', '--', ...typed], {
    cwd: folder,
  });
  expect(stdout).toMatch(/^.*2\.delta\.mender: 0\.\d MiB for an image of 0\.1 MiB\n$/);
  expect(JSON.parse(await readFile(join(folder, 'figures.json'), 'utf8'))).toMatchObject({
    result: { sizeBytes: 65_536 },
  });
});

// Regression: NODE_COMPILE_CACHE came from the environment, even if other users could write there.
test('compiled code comes only from a directory of the agent', async () => {
  const [own, theirs, named] = ['own', 'theirs', 'named'].map((name) => join(folder, name));
  if (own === undefined || theirs === undefined || named === undefined) throw new Error('three were named');
  for (const place of [own, theirs, named]) await mkdir(place);
  await chown(theirs, 65_534, 65_534);
  await version({ NODE_COMPILE_CACHE: named, CACHE_DIRECTORY: theirs });
  await version({ NODE_COMPILE_CACHE: named, CACHE_DIRECTORY: own });
  expect([await readdir(named), await readdir(theirs)]).toEqual([[], []]);
  expect(await readdir(own)).not.toEqual([]);
});

// Regression: code that an attacker left in /var/cache ran after the reboot into a verified image.
test.each([
  ['CRYPT-VERITY-0123-root', false],
  ['LVM-0123', true],
])('with the mapped device %s compiled code is kept: %s', async (uuid, isKept) => {
  const [block, own] = [join(folder, 'block'), join(folder, 'own')];
  await mkdir(join(block, 'dm-0/dm'), { recursive: true });
  await mkdir(own);
  await writeFile(join(block, 'dm-0/dm/uuid'), `${uuid}\n`);
  const script = 'mount --bind "$1" /sys/block && exec "$2" --version';
  await run('unshare', ['--mount', 'sh', '-c', script, 'sh', block, launcher], {
    env: { PATH: process.env['PATH'], HOME: folder, CACHE_DIRECTORY: own },
  });
  expect((await readdir(own)).length > 0).toBe(isKept);
});
