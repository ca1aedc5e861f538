import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { link, mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { acquireLock, DAEMON, findLockHolder } from '../../../../src/system/files/lock.ts';
import { runProgram } from '../../../../src/system/processes/child-process.ts';
import { folderUntilTestEnds } from '../../../until-test-ends.ts';

const signal = AbortSignal.timeout(120_000);
let directory: string;
let path: string;
let others: ChildProcess[];

beforeEach(() => {
  directory = folderUntilTestEnds();
  path = join(directory, 'run', 'agent.lock');
  others = [];
});

afterEach(() => {
  for (const other of others) other.kill('SIGKILL');
});

/** Another process that requests the lock, prints `held` or the error's code, and keeps the lock. */
async function otherAgent(purpose: string): Promise<{ readonly said: string; readonly process: ChildProcess }> {
  const script = `
    import { acquireLock } from ${JSON.stringify(join(import.meta.dirname, '../../../../src/system/files/lock.ts'))};
    try {
      globalThis.lock = await acquireLock(${JSON.stringify(path)}, ${JSON.stringify(purpose)}, AbortSignal.timeout(60_000));
      console.log('held');
      setInterval(() => {}, 1_000);
    } catch (error) {
      console.log(error.code ?? error);
    }`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  others.push(child);
  const [said] = (await once(createInterface(child.stdout), 'line')) as [string];
  return { said, process: child };
}

async function kill(child: ChildProcess): Promise<void> {
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
}

test('a pipe instead of the lock is neither locked nor awaited', async () => {
  await mkdir(join(directory, 'run'));
  execFileSync('mkfifo', [path]);
  expect(await findLockHolder(path)).toBeUndefined();
  await expect(acquireLock(path, 'agent run', signal)).rejects.toMatchObject({
    code: 'lock-unavailable',
    message: expect.stringMatching(/it is not a regular file$/) as unknown,
  });
});

// Regression: root was advised to run as root, and to install flock.
test.each([
  ['folder', async () => mkdir(path)],
  ['link', async () => symlink('/etc/hostname', path)],
  ['pipe', async () => execFileSync('mkfifo', [path])],
])('a %s instead of the lock is named, with the command that removes it', async (_, make) => {
  await mkdir(join(directory, 'run'));
  await make();
  await expect(acquireLock(path, 'agent run', signal)).rejects.toMatchObject({
    code: 'lock-unavailable',
    message: `cannot lock ${path}: it is not a regular file`,
    advice: `the agent did not create this; as root: systemctl stop thing-agent; rm -r ${path}`,
  });
});

test('a file with a second name is rejected as a lock, and keeps its content', async () => {
  const victim = join(directory, 'victim');
  await mkdir(join(directory, 'run'));
  await writeFile(victim, 'mine');
  await link(victim, path);
  await expect(acquireLock(path, 'agent run', signal)).rejects.toMatchObject({ code: 'lock-unavailable' });
  expect(await readFile(victim, 'utf8')).toBe('mine');
});

describe('acquireLock', () => {
  test('admits one agent at a time and names the running one', async () => {
    const other = await otherAgent('agent run');
    expect(other.said).toBe('held');
    await expect(acquireLock(path, 'agent --update-now', signal)).rejects.toMatchObject({
      code: 'agent-busy',
      exit: 'tryAgain',
      remedy: 'retry',
      holder: { pid: other.process.pid, purpose: 'agent run' },
      message: `process ${other.process.pid} (agent run) is at work and holds ${path}`,
    });
  });

  test('is free again as soon as its holder is killed', async () => {
    for (let round = 0; round < 3; round += 1) {
      const other = await otherAgent('agent run');
      expect(other.said).toBe('held');
      await kill(other.process);
      const lock = await acquireLock(path, 'here', signal);
      await lock[Symbol.asyncDispose]();
    }
  });

  test('is free again when it is given back, once and for all', async () => {
    const lock = await acquireLock(path, 'first', signal);
    await lock[Symbol.asyncDispose]();
    await lock[Symbol.asyncDispose]();
    await using again = await acquireLock(path, 'second', signal);
    expect(again).toBeDefined();
    expect(await readFile(path, 'utf8')).toBe(`${process.pid} second\n`);
  });

  test('holds within one process too', async () => {
    await using first = await acquireLock(path, 'first', signal);
    expect(first).toBeDefined();
    await expect(acquireLock(path, 'second', signal)).rejects.toMatchObject({ holder: { pid: process.pid } });
  });

  test('tells a second daemon that one is enough, and everybody else to wait', async () => {
    await using held = await acquireLock(path, DAEMON, signal);
    expect(held).toBeDefined();
    await expect(acquireLock(path, DAEMON, signal)).rejects.toMatchObject({
      advice: expect.stringContaining('one is enough') as unknown,
    });
    await expect(acquireLock(path, 'agent install', signal)).rejects.toMatchObject({
      advice: expect.stringContaining('wait') as unknown,
    });
  });

  test('is not kept by a program that its holder started and that lives on', async () => {
    const holder = await acquireLock(path, 'first', signal);
    const survivor = spawn('sleep', ['60'], { detached: true, stdio: 'ignore' });
    others.push(survivor);
    await holder[Symbol.asyncDispose]();
    await using again = await acquireLock(path, 'second', signal);
    expect(again).toBeDefined();
  });

  test('minds neither an old file nor a process id in it that is in use', async () => {
    const lock = await acquireLock(path, 'first', signal);
    await lock[Symbol.asyncDispose]();
    await writeFile(path, '1 agent run\n');
    await using again = await acquireLock(path, 'second', signal);
    expect(again).toBeDefined();
  });

  test('reports a running agent even if the file does not name it', async () => {
    await using first = await acquireLock(path, 'first', signal);
    expect(first).toBeDefined();
    await writeFile(path, 'garbage\0');
    await expect(acquireLock(path, 'second', signal)).rejects.toMatchObject({
      code: 'agent-busy',
      holder: undefined,
      message: `another agent is at work and holds ${path}`,
    });
  });

  test('of two that ask at the same moment lets exactly one in', async () => {
    for (let round = 0; round < 3; round += 1) {
      const both = await Promise.all([otherAgent('left'), otherAgent('right')]);
      expect(both.map(({ said }) => said).sort()).toEqual(['agent-busy', 'held']);
      await Promise.all(both.filter(({ said }) => said === 'held').map(async (other) => kill(other.process)));
    }
  });

  test('belongs to the file that has the name now', async () => {
    const old = await acquireLock(path, 'first', signal);
    await rename(path, `${path}.old`);
    await using current = await acquireLock(path, 'second', signal);
    expect(current).toBeDefined();
    await old[Symbol.asyncDispose]();
    await expect(acquireLock(path, 'third', signal)).rejects.toMatchObject({ holder: { purpose: 'second' } });
  });

  test('is requested again if the file was replaced in between', async () => {
    const programs = join(directory, 'programs');
    await mkdir(programs);
    const flock = `#!/bin/sh\nmv -n ${path} ${path}.old\nPATH=\${PATH#*:} exec flock "$@"\n`;
    await writeFile(join(programs, 'flock'), flock, { mode: 0o755 });
    const search = process.env['PATH'];
    process.env['PATH'] = `${programs}:${search}`;
    try {
      await using lock = await acquireLock(path, 'first', signal);
      expect(lock).toBeDefined();
      process.env['PATH'] = search;
      await expect(acquireLock(path, 'second', signal)).rejects.toMatchObject({ holder: { purpose: 'first' } });
    } finally {
      process.env['PATH'] = search;
    }
  });

  test('does not follow a link at its path', async () => {
    await (await acquireLock(path, 'first', signal))[Symbol.asyncDispose]();
    const elsewhere = join(directory, 'precious');
    await writeFile(elsewhere, 'precious');
    await rm(path);
    await symlink(elsewhere, path);
    await expect(acquireLock(path, 'second', signal)).rejects.toMatchObject({ code: 'lock-unavailable' });
    expect(await readFile(elsewhere, 'utf8')).toBe('precious');
  });

  test('reports why there can be no lock', async () => {
    await writeFile(join(directory, 'file'), '');
    await expect(acquireLock(join(directory, 'file', 'agent.lock'), 'x', signal)).rejects.toMatchObject({
      code: 'lock-unavailable',
      advice: 'run as root, and check that the program flock (util-linux) is installed',
    });
  });

  test('does not begin after an abort', async () => {
    await expect(acquireLock(path, 'x', AbortSignal.abort(new Error('stopped')))).rejects.toThrow('stopped');
    await using lock = await acquireLock(path, 'y', signal);
    expect(lock).toBeDefined();
  });

  test('excludes a program that uses flock(1) on the file', async () => {
    await using lock = await acquireLock(path, 'x', signal);
    expect(lock).toBeDefined();
    const { exitCode } = await runProgram(['flock', '-n', path, 'true'], { timeoutMs: 10_000 }, signal);
    expect(exitCode).toBe(1);
  });
});

// Regression: who had filled /run kept every later agent from starting, with an unexpected failure.
test('is taken on a file system that is full, too', async () => {
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4k', 'none', directory]);
  try {
    await writeFile(join(directory, 'ballast'), Buffer.alloc(4_096));
    const path = join(directory, 'full.lock');
    await using lock = await acquireLock(path, 'first', signal);
    expect(lock).toBeDefined();
    await expect(acquireLock(path, 'second', signal)).rejects.toMatchObject({ code: 'agent-busy' });
  } finally {
    execFileSync('umount', [directory]);
  }
});
