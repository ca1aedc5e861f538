import { spawnSync } from 'node:child_process';
import { chmod, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { acquireLock } from '../../../../src/system/files/lock.ts';
import { facts, FoldersRig, NOBODY } from './folders-rig.ts';

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

describe('own-folders beside an agent', () => {
  // Seen: a link that the agent put there between two steps had its target's mode changed, and a file there kept root out.
  test.each(['root', 'nobody'] as const)(
    'changes nothing through what the agent puts into its run directory meanwhile, and is kept from nothing: %s',
    async (user) => {
      rig.ownFolders('nobody');
      const run = join(state, '../run');
      const victim = join(state, '../victim');
      for (const folder of [run, victim]) await mkdir(folder, { mode: 0o755 });
      await chmod(join(state, '..'), 0o711);
      for (const name of ['operators', 'committed']) await writeFile(join(run, name), '');
      spawnSync('chown', ['-R', `${NOBODY}:${NOBODY}`, run]);
      const exchange = `rm -rf '${run}/operators'; ln -s '${victim}' '${run}/operators'`;
      const agent = `setpriv --reuid=${NOBODY} --regid=${NOBODY} --clear-groups sh -c "${exchange}" 2>/dev/null`;
      const programs = await rig.pretend('chmod', `case $* in *operators) ${agent} ;; esac`);
      await rig.withoutGroup(programs);
      expect(rig.runAs(user, programs, run)).toMatchObject({ status: 0, stderr: '' });
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
      const programs = await rig.withoutGroup();
      if (user === 'root') rig.ownFolders('nobody');
      const before = await facts(state);
      {
        await using _held = await acquireLock(lock, 'run --single', AbortSignal.timeout(60_000));
        expect(rig.runAs(user, programs, run)).toMatchObject({
          status: 0,
          stdout: expect.stringMatching(
            /^<4>an agent is at work and holds .*agent\.lock: nothing is given to/,
          ) as unknown,
        });
        expect(await facts(state)).toEqual(before);
        // who has the lock runs it
        expect(rig.runAs('root', programs, run, { AGENT_LOCK: 'ours' })).toMatchObject({ status: 0, stdout: '' });
      }
      expect(rig.runAs(user, programs, run)).toMatchObject({ status: 0, stdout: '', stderr: '' });
      expect((await facts(user === 'root' ? state : own))['identity.json']).toBe(`${user === 'root' ? 0 : NOBODY} 600`);
      expect((await facts(run))['agent.lock']).toBe(`${user === 'root' ? 0 : NOBODY} 600`);
    },
  );

  // Seen: the socket stayed, and each connection to it started a helper that the configuration does not name.
  test('stops the socket of a helper that nobody asks any more, once, and by the unit alone', async () => {
    const { run } = await runDirectory();
    rig.ownFolders('nobody');
    const programs = await rig.withoutGroup(await rig.pretend('systemctl', `echo "$*" >>'${rig.moves}'; exit 0`));
    const asked = async (more: Readonly<Record<string, string>>): Promise<string> => {
      expect(rig.runAs('root', programs, run, more).status).toBe(0);
      return readFile(rig.moves, 'utf8');
    };
    expect(await asked({})).toBe('');
    spawnSync('chown', [String(NOBODY), own]);
    const stopped = 'stop --no-block thing-helper.socket thing-helper.service\n';
    expect(await asked({ INVOCATION_ID: '1' })).toBe(stopped);
    expect(await asked({ INVOCATION_ID: '1' })).toBe(stopped);
  });

  // Seen: neither reinstalling nor going back to one process helped against a folder in place of the socket.
  test('is not kept from its sockets by what the agent has put in their place', async () => {
    const { run } = await runDirectory();
    rig.ownFolders('nobody');
    const programs = await rig.withoutGroup();
    const plant =
      'mkdir $0/operators; mkdir $0/root.sock; ln -s /etc/shadow $0/control.sock; mkfifo $0/operators/status.sock';
    spawnSync('sh', ['-c', plant, run]);
    expect(rig.runAs('root', programs, run).stdout.match(/is no socket, and set aside/g)).toHaveLength(3);
    const left = [...(await readdir(run)), ...(await readdir(join(run, 'operators')))];
    expect(left.filter((name) => name.endsWith('.sock'))).toEqual([]);
  });

  test.each(['mkdir -p $0/folder', 'mkfifo $0', 'ln -s $1 $0', 'ln $1 $0'])(
    'is not kept out by what the agent has put in place of the lock: %s',
    async (plant) => {
      const { run, lock } = await runDirectory();
      const victim = join(run, 'victim');
      await writeFile(victim, 'mine', { mode: 0o644 });
      rig.ownFolders('nobody');
      spawnSync('sh', ['-c', plant, lock, victim]);
      const programs = await rig.withoutGroup();
      expect(rig.runAs('root', programs, run)).toMatchObject({
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
