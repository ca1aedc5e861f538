import { spawnSync } from 'node:child_process';
import type { SpawnSyncReturns } from 'node:child_process';
import { chmod, link, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { acquireLock } from '../../../../src/system/files/lock.ts';
import { newDirectory, systemdDirectory } from '../installed-root.ts';

const NOBODY = 65_534;
const small = ['history.json', 'identity.json', 'security.json'];
const spool = ['spool.db', 'spool.db-wal'];

/** So many files were moved when the first part of the spool was. */
const betweenParts = small.length + 1;

let state: string;
let own: string;

beforeEach(async () => {
  state = join(await newDirectory(), 'state');
  own = join(state, 'agent');
  await mkdir(state, { mode: 0o700 });
  await write(state, [...small, ...spool, 'journal.json'], 'one');
});
afterEach(async () => {
  await rm(join(state, '..'), { recursive: true });
});

async function write(folder: string, names: readonly string[], text: string): Promise<void> {
  for (const name of names) await writeFile(join(folder, name), `${name} of ${text}`, { mode: 0o600 });
}

/** Runs it with the programs of a folder in front of the machine's own. */
function runAs(
  user: 'root' | 'nobody',
  programs?: string,
  run = join(state, 'none'),
  more = {},
): SpawnSyncReturns<string> {
  const path = process.env['PATH'] ?? '';
  const folders = programs === undefined ? path : `${programs}:${path}`;
  const env = { PATH: folders, STATE_DIRECTORY: state, RUNTIME_DIRECTORY: run, ...more };
  return spawnSync(join(systemdDirectory, 'own-folders'), [user], { env, encoding: 'utf8' });
}

/** A folder with a program that does this before the machine's own. */
async function pretend(name: string, body: string): Promise<string> {
  const folder = join(state, '../bin');
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder);
  await writeFile(join(state, '../moves'), '');
  const rest = `echo "$*" >>'${state}/../moves'; PATH=\${PATH#*:} exec ${name} "$@"`;
  await writeFile(join(folder, name), `#!/bin/sh\n${body}\n${rest}\n`, { mode: 0o755 });
  return folder;
}

/** Programs that know nothing of a group which this machine has not. */
async function withoutGroup(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true });
  const chown = `#!/bin/sh\nPATH=\${PATH#*:}\nexec chown $(echo "$*" | sed s/:thing-operators/:/)\n`;
  await writeFile(join(folder, 'chown'), chown, { mode: 0o755 });
  return folder;
}

/** `nobody` in the place of the agent's user. */
function ownFolders(user: 'root' | 'nobody', programs?: string): string {
  const { status, stdout, stderr } = runAs(user, programs);
  expect([status, stderr]).toEqual([0, '']);
  return stdout;
}

/** Who owns what there, and with which mode. */
async function facts(folder: string): Promise<Readonly<Record<string, string>>> {
  const found: Record<string, string> = {};
  for (const name of ['.', ...(await readdir(folder))]) {
    const { uid, mode } = await stat(join(folder, name));
    found[name] = `${uid} ${(mode & 0o777).toString(8)}`;
  }
  return found;
}

const all = (names: readonly string[], fact: string): Readonly<Record<string, string>> =>
  Object.fromEntries(names.map((name) => [name, fact]));

describe('own-folders', () => {
  test('does nothing where the agent never had a helper', async () => {
    const before = await facts(state);
    expect(ownFolders('root')).toBe('');
    expect(await facts(state)).toEqual(before);
  });

  test('hands on what the agent is to have, a copy where an older agent looks for it, and the same again', async () => {
    for (const round of [1, 2]) {
      expect(ownFolders('nobody'), `round ${round}`).toBe('');
      const rest = all(['journal.json', ...small], '0 600');
      expect(await facts(state)).toEqual({ '.': '0 711', agent: `${NOBODY} 700`, ...rest });
      expect(await facts(own)).toEqual({ '.': `${NOBODY} 700`, ...all([...small, ...spool], `${NOBODY} 600`) });
    }
  });

  test('takes it back, as the agent left it', async () => {
    ownFolders('nobody');
    await write(own, [...small, ...spool], 'two');
    expect(ownFolders('root')).toBe('');
    expect(await facts(own)).toEqual({ '.': '0 700' });
    expect(await facts(state)).toMatchObject({ '.': '0 700', ...all(['journal.json', ...small, ...spool], '0 600') });
    for (const name of [...small, ...spool]) expect(await readFile(join(state, name), 'utf8')).toBe(`${name} of two`);
    ownFolders('nobody');
    expect(await readFile(join(own, 'spool.db'), 'utf8')).toBe('spool.db of two');
  });

  test('goes on where it was cut off between the parts of a spool', async () => {
    await mkdir(own);
    await write(own, ['spool.db-wal'], 'one');
    await rm(join(state, 'spool.db-wal'));
    expect(ownFolders('nobody')).toBe('');
    expect((await facts(own))['spool.db']).toBe(`${NOBODY} 600`);
    expect((await facts(own))['spool.db-wal']).toBe(`${NOBODY} 600`);
  });

  test('hands on a second spool beside the first, and keeps a third, which it says', async () => {
    ownFolders('nobody');
    for (const text of ['second', 'third']) {
      await write(state, spool, text);
      expect(ownFolders('nobody')).toMatch(text === 'second' ? /^$/ : /^<4>.*state\/spool\.db waits/);
    }
    const texts = async (folder: string, names: readonly string[]): Promise<readonly string[]> =>
      Promise.all(names.map(async (name) => readFile(join(folder, name), 'utf8')));
    const both = ['spool.db', 'spool.db-wal', 'spool.db.other', 'spool.db.other-wal'];
    const held = ['spool.db of one', 'spool.db-wal of one', 'spool.db of second', 'spool.db-wal of second'];
    expect(await texts(own, both)).toEqual(held);
    expect(await texts(state, spool)).toEqual(['spool.db of third', 'spool.db-wal of third']);
    expect(ownFolders('root')).toMatch(/^<4>.*agent\/spool\.db\.other waits/);
    expect(await texts(state, both.slice(2))).toEqual(held.slice(0, 2));
    expect(await texts(own, both.slice(2))).toEqual(held.slice(2));
  });

  test('takes nothing that leads elsewhere: a link, a file with two names, a pipe', async () => {
    ownFolders('nobody');
    const victim = join(state, '../victim');
    await writeFile(victim, 'mine');
    await chmod(victim, 0o644);
    for (const name of ['identity.json', 'spool.db-wal', 'history.json']) await rm(join(own, name));
    await symlink(victim, join(own, 'identity.json'));
    await link(victim, join(own, 'spool.db-wal'));
    spawnSync('mkfifo', [join(own, 'history.json')]);
    expect(ownFolders('root').match(/is no file of its own/g)).toHaveLength(3);
    expect(await stat(victim)).toMatchObject({ uid: 0, mode: 0o100_644 });
    expect(await readFile(join(state, 'identity.json'), 'utf8')).toBe('identity.json of one');
    expect((await readdir(state)).filter((name) => name.startsWith('spool'))).toEqual([]);
  });

  test.each(['nobody', 'root'] as const)(
    'goes on where it was killed, whichever file it had moved, and gives %s no folder before all is there',
    async (user) => {
      const [from, to] = user === 'root' ? [own, state] : [state, own];
      for (const moved of [0, 2, betweenParts]) {
        await rm(state, { recursive: true });
        await mkdir(state, { mode: 0o700 });
        await write(state, [...small, ...spool], 'one');
        if (user === 'root') ownFolders('nobody');
        const program = await pretend('mv', `[ $(wc -l <'${state}/../moves') -lt ${moved} ] || kill -9 $PPID`);
        expect(runAs(user, program).signal).toBe('SIGKILL');
        expect((await stat(own)).uid).toBe(0);
        expect(ownFolders(user)).toBe('');
        for (const name of [...small, ...spool])
          expect(await readFile(join(to, name), 'utf8'), `${name} after ${moved}`).toBe(`${name} of one`);
        expect((await readdir(from)).filter((name) => name.startsWith('spool'))).toEqual([]);
        expect((await facts(to))['identity.json']).toBe(user === 'root' ? '0 600' : `${NOBODY} 600`);
      }
    },
  );

  test('hands on the files themselves where there is no room for copies, and says so', async () => {
    const full = await pretend('cp', 'echo part >"$2"; echo "cp: No space left on device" >&2; exit 1');
    const { status, stdout } = runAs('nobody', full);
    expect(status).toBe(0);
    expect(stdout.match(/<4>.*cannot be copied/g)).toHaveLength(small.length);
    for (const name of [...small, ...spool]) expect(await readFile(join(own, name), 'utf8')).toBe(`${name} of one`);
    expect(await facts(own)).toMatchObject({ '.': `${NOBODY} 700`, ...all(small, `${NOBODY} 600`) });
    expect(await readdir(state)).toEqual(['agent', 'journal.json']);
    ownFolders('root');
    expect(await readFile(join(state, 'identity.json'), 'utf8')).toBe('identity.json of one');
  });

  test('says how it is called', () => {
    const { status, stderr } = spawnSync(join(systemdDirectory, 'own-folders'), { encoding: 'utf8' });
    expect([status, stderr.split('\n')]).toEqual([64, [expect.stringMatching(/^usage: own-folders root \|/), '']]);
  });

  test('finds an owner who has another number in this image', async () => {
    ownFolders('nobody');
    spawnSync('chown', ['-R', '12345:12345', own]);
    const victim = join(state, 'journal.json');
    await link(victim, join(own, 'planted'));
    ownFolders('nobody');
    expect(await facts(own)).toMatchObject({ '.': `${NOBODY} 700`, ...all([...small, ...spool], `${NOBODY} 600`) });
    expect(await stat(victim)).toMatchObject({ uid: 0 });
  });

  test('gives the folder last, so that the next start goes on where this one was cut off', async () => {
    ownFolders('nobody');
    spawnSync('chown', ['-R', '12345:12345', own]);
    const log = join(state, '../chown.log');
    const folder = join(state, '../bin');
    await mkdir(folder);
    await writeFile(join(folder, 'chown'), `#!/bin/sh\nprintf '%s\\n' "$@" >>'${log}'\n`, { mode: 0o755 });
    ownFolders('nobody', folder);
    const given = (await readFile(log, 'utf8')).trim().split('\n').slice(2);
    expect(given.toSorted()).toEqual([own, ...[...small, ...spool].map((name) => join(own, name))]);
    expect(given.at(-1)).toBe(own);
  });

  // Seen: a link that the agent put there between two steps had its target's mode changed, and a file there kept root out.
  test.each(['root', 'nobody'] as const)(
    'changes nothing through what the agent puts into its run directory meanwhile, and is kept from nothing: %s',
    async (user) => {
      ownFolders('nobody');
      const run = join(state, '../run');
      const victim = join(state, '../victim');
      for (const folder of [run, victim]) await mkdir(folder, { mode: 0o755 });
      await chmod(join(state, '..'), 0o711);
      for (const name of ['operators', 'committed']) await writeFile(join(run, name), '');
      spawnSync('chown', ['-R', `${NOBODY}:${NOBODY}`, run]);
      const exchange = `rm -rf '${run}/operators'; ln -s '${victim}' '${run}/operators'`;
      const agent = `setpriv --reuid=${NOBODY} --regid=${NOBODY} --clear-groups sh -c "${exchange}" 2>/dev/null`;
      const programs = await pretend('chmod', `case $* in *operators) ${agent} ;; esac`);
      await withoutGroup(programs);
      expect(runAs(user, programs, run)).toMatchObject({ status: 0, stderr: '' });
      expect((await stat(victim)).mode & 0o7777).toBe(0o755);
      const [ours, kept] = user === 'root' ? [0, []] : [NOBODY, ['committed']];
      expect(await facts(run)).toMatchObject({ '.': `${ours} 755`, operators: `${ours} 750` });
      expect(await readdir(run)).toEqual(['agent.lock', ...kept, 'operators']);
    },
  );

  /** A run directory of the agent's user, and its lock. */
  async function runDirectory(): Promise<{ readonly run: string; readonly lock: string }> {
    const run = join(state, '../run');
    await mkdir(run, { mode: 0o755 });
    await chmod(join(state, '..'), 0o711);
    return { run, lock: join(run, 'agent.lock') };
  }

  // Seen: a unit that was started beside `agent --single` gave identity and spool away beneath it.
  test.each(['nobody', 'root'] as const)(
    'gives nothing to %s beneath an agent that works, and says so',
    async (user) => {
      const { run, lock } = await runDirectory();
      const programs = await withoutGroup(join(state, '../bin'));
      if (user === 'root') ownFolders('nobody');
      const before = await facts(state);
      {
        await using _held = await acquireLock(lock, 'run --single', AbortSignal.timeout(60_000));
        expect(runAs(user, programs, run)).toMatchObject({
          status: 0,
          stdout: expect.stringMatching(
            /^<4>an agent is at work and holds .*agent\.lock: nothing is given to/,
          ) as unknown,
        });
        expect(await facts(state)).toEqual(before);
        if (user === 'root') expect(runAs(user, programs, run, { AGENT_LOCK: 'ours' })).toMatchObject({ stdout: '' });
      }
      expect(runAs(user, programs, run)).toMatchObject({ status: 0, stdout: '', stderr: '' });
      expect((await facts(user === 'root' ? state : own))['identity.json']).toBe(`${user === 'root' ? 0 : NOBODY} 600`);
      expect((await facts(run))['agent.lock']).toBe(`${user === 'root' ? 0 : NOBODY} 600`);
    },
  );

  test.each(['mkdir -p $0/folder', 'mkfifo $0', 'ln -s $1 $0', 'ln $1 $0'])(
    'is not kept out by what the agent has put in place of the lock: %s',
    async (plant) => {
      const { run, lock } = await runDirectory();
      const victim = join(run, 'victim');
      await writeFile(victim, 'mine', { mode: 0o644 });
      ownFolders('nobody');
      spawnSync('sh', ['-c', plant, lock, victim]);
      const programs = await withoutGroup(join(state, '../bin'));
      expect(runAs('root', programs, run)).toMatchObject({
        status: 0,
        stdout: expect.stringMatching(/^<4>.*agent\.lock is no file of its own, and set aside/) as unknown,
      });
      await using held = await acquireLock(lock, 'daemon', AbortSignal.timeout(60_000));
      expect(held).toBeDefined();
      expect(await stat(victim)).toMatchObject({ uid: 0, mode: 0o100_644, size: 4 });
      expect((await facts(state))['identity.json']).toBe('0 600');
    },
  );
});
