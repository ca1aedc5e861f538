import { spawnSync } from 'node:child_process';
import { chmod, link, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { systemdDirectory } from '../installed-root.ts';
import { facts, FoldersRig, NOBODY, small, spool, write } from './folders-rig.ts';

/** So many files were moved when the first part of the spool was. */
const betweenParts = small.length + 1;

let rig: FoldersRig;
let state: string;
let own: string;

beforeEach(async () => {
  rig = await FoldersRig.create();
  ({ state, own } = rig);
});
afterEach(async () => {
  await rig[Symbol.asyncDispose]();
});

const all = (names: readonly string[], fact: string): Readonly<Record<string, string>> =>
  Object.fromEntries(names.map((name) => [name, fact]));

describe('own-folders', () => {
  test('does nothing where the agent never had a helper', async () => {
    const before = await facts(state);
    expect(rig.ownFolders('root')).toBe('');
    expect(await facts(state)).toEqual(before);
  });

  test('hands on what the agent is to have, a copy where an older agent looks for it, and the same again', async () => {
    for (const round of [1, 2]) {
      expect(rig.ownFolders('nobody'), `round ${round}`).toBe('');
      const rest = all(['journal.json', ...small], '0 600');
      expect(await facts(state)).toEqual({ '.': '0 711', agent: `${NOBODY} 700`, ...rest });
      expect(await facts(own)).toEqual({ '.': `${NOBODY} 700`, ...all([...small, ...spool], `${NOBODY} 600`) });
    }
  });

  test('takes it back, as the agent left it', async () => {
    rig.ownFolders('nobody');
    await write(own, [...small, ...spool], 'two');
    expect(rig.ownFolders('root')).toBe('');
    expect(await facts(own)).toEqual({ '.': '0 700' });
    expect(await facts(state)).toMatchObject({ '.': '0 700', ...all(['journal.json', ...small, ...spool], '0 600') });
    for (const name of [...small, ...spool]) expect(await readFile(join(state, name), 'utf8')).toBe(`${name} of two`);
    rig.ownFolders('nobody');
    expect(await readFile(join(own, 'spool.db'), 'utf8')).toBe('spool.db of two');
  });

  test('goes on where it was cut off between the parts of a spool', async () => {
    await mkdir(own);
    await write(own, ['spool.db-wal'], 'one');
    await rm(join(state, 'spool.db-wal'));
    expect(rig.ownFolders('nobody')).toBe('');
    expect((await facts(own))['spool.db']).toBe(`${NOBODY} 600`);
    expect((await facts(own))['spool.db-wal']).toBe(`${NOBODY} 600`);
  });

  test('hands on a second spool beside the first, and keeps a third, which it says', async () => {
    rig.ownFolders('nobody');
    for (const text of ['second', 'third']) {
      await write(state, spool, text);
      expect(rig.ownFolders('nobody')).toMatch(text === 'second' ? /^$/ : /^<4>.*state\/spool\.db waits/);
    }
    const texts = async (folder: string, names: readonly string[]): Promise<readonly string[]> =>
      Promise.all(names.map(async (name) => readFile(join(folder, name), 'utf8')));
    const both = ['spool.db', 'spool.db-wal', 'spool.db.other', 'spool.db.other-wal'];
    const held = ['spool.db of one', 'spool.db-wal of one', 'spool.db of second', 'spool.db-wal of second'];
    expect(await texts(own, both)).toEqual(held);
    expect(await texts(state, spool)).toEqual(['spool.db of third', 'spool.db-wal of third']);
    expect(rig.ownFolders('root')).toMatch(/^<4>.*agent\/spool\.db\.other waits/);
    expect(await texts(state, both.slice(2))).toEqual(held.slice(0, 2));
    expect(await texts(own, both.slice(2))).toEqual(held.slice(2));
  });

  test('takes nothing that leads elsewhere: a link, a file with two names, a pipe', async () => {
    rig.ownFolders('nobody');
    const victim = join(state, '../victim');
    await writeFile(victim, 'mine');
    await chmod(victim, 0o644);
    for (const name of ['identity.json', 'spool.db-wal', 'history.json']) await rm(join(own, name));
    await symlink(victim, join(own, 'identity.json'));
    await link(victim, join(own, 'spool.db-wal'));
    spawnSync('mkfifo', [join(own, 'history.json')]);
    expect(rig.ownFolders('root').match(/is no file of its own/g)).toHaveLength(3);
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
        if (user === 'root') rig.ownFolders('nobody');
        const program = await rig.pretend('mv', `[ $(wc -l <'${rig.moves}') -lt ${moved} ] || kill -9 $PPID`);
        expect(rig.runAs(user, program).signal).toBe('SIGKILL');
        expect((await stat(own)).uid).toBe(0);
        expect(rig.ownFolders(user)).toBe('');
        for (const name of [...small, ...spool])
          expect(await readFile(join(to, name), 'utf8'), `${name} after ${moved}`).toBe(`${name} of one`);
        expect((await readdir(from)).filter((name) => name.startsWith('spool'))).toEqual([]);
        expect((await facts(to))['identity.json']).toBe(user === 'root' ? '0 600' : `${NOBODY} 600`);
      }
    },
  );

  test('hands on the files themselves where there is no room for copies, and says so', async () => {
    const full = await rig.pretend('cp', 'echo part >"$2"; echo "cp: No space left on device" >&2; exit 1');
    const { status, stdout } = rig.runAs('nobody', full);
    expect(status).toBe(0);
    expect(stdout.match(/<4>.*cannot be copied/g)).toHaveLength(small.length);
    for (const name of [...small, ...spool]) expect(await readFile(join(own, name), 'utf8')).toBe(`${name} of one`);
    expect(await facts(own)).toMatchObject({ '.': `${NOBODY} 700`, ...all(small, `${NOBODY} 600`) });
    expect(await readdir(state)).toEqual(['agent', 'journal.json']);
    rig.ownFolders('root');
    expect(await readFile(join(state, 'identity.json'), 'utf8')).toBe('identity.json of one');
  });

  test('says how it is called', () => {
    const { status, stderr } = spawnSync(join(systemdDirectory, 'own-folders'), { encoding: 'utf8' });
    expect([status, stderr.split('\n')]).toEqual([64, [expect.stringMatching(/^usage: own-folders root \|/), '']]);
  });

  test('finds an owner who has another number in this image', async () => {
    rig.ownFolders('nobody');
    spawnSync('chown', ['-R', '12345:12345', own]);
    const victim = join(state, 'journal.json');
    await link(victim, join(own, 'planted'));
    rig.ownFolders('nobody');
    expect(await facts(own)).toMatchObject({ '.': `${NOBODY} 700`, ...all([...small, ...spool], `${NOBODY} 600`) });
    expect(await stat(victim)).toMatchObject({ uid: 0 });
  });

  test('gives the folder last, so that the next start goes on where this one was cut off', async () => {
    rig.ownFolders('nobody');
    spawnSync('chown', ['-R', '12345:12345', own]);
    const log = join(state, '../chown.log');
    const folder = join(state, '../bin');
    await mkdir(folder);
    await writeFile(join(folder, 'chown'), `#!/bin/sh\nprintf '%s\\n' "$@" >>'${log}'\n`, { mode: 0o755 });
    rig.ownFolders('nobody', folder);
    const given = (await readFile(log, 'utf8')).trim().split('\n').slice(2);
    expect(given.toSorted()).toEqual([own, ...[...small, ...spool].map((name) => join(own, name))]);
    expect(given.at(-1)).toBe(own);
  });
});
