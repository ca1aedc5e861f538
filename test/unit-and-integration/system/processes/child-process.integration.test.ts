import { execFile } from 'node:child_process';
import { join } from 'node:path';
import process from 'node:process';
import { promisify } from 'node:util';

import { describe, expect, test } from 'vitest';

import { runProgram } from '../../../../src/system/processes/child-process.ts';
import { execStreamSource } from '../../../../src/telemetry/sources/exec.ts';

const never = new AbortController().signal;
/** Beyond the process group, as a daemon goes, with the output of who started it. */
const LEFT_BEHIND = 'setsid sleep 60 &';

/** Regression: each of these waited for orphans, beyond every deadline; a hook delayed the agent for 24 minutes. */
describe('a program that leaves a process with its output open', () => {
  test('has ended when it ends, with all that it printed', async () => {
    const command = ['sh', '-c', `${LEFT_BEHIND} head -c 300000 /dev/zero; echo why >&2; exit 3`] as const;
    const { exitCode, stdout, stderr } = await runProgram(command, { timeoutMs: 30_000 }, never);
    expect({ exitCode, bytes: stdout.length, stderr }).toEqual({ exitCode: 3, bytes: 300_000, stderr: 'why\n' });
  });

  test('takes along what is in its group', async () => {
    const seconds = `6${String(process.pid).padStart(8, '0')}`;
    const { exitCode } = await runProgram(['sh', '-c', `sleep ${seconds} & exit 0`], { timeoutMs: 30_000 }, never);
    expect(exitCode).toBe(0);
    const options = { timeoutMs: 30_000 };
    const left = async () => (await runProgram(['pgrep', '--full', `sleep ${seconds}`], options, never)).stdout;
    await expect.poll(left).toBe('');
  });

  test('is ended by its deadline', async () => {
    const running = runProgram(['sh', '-c', `${LEFT_BEHIND} sleep 60`], { timeoutMs: 500 }, never);
    await expect(running).rejects.toMatchObject({ code: 'program-timeout' });
  });

  test('is ended by an abort', async () => {
    const giveUp = new AbortController();
    const running = runProgram(['sh', '-c', `${LEFT_BEHIND} sleep 60`], { timeoutMs: 50_000 }, giveUp.signal);
    setTimeout(() => giveUp.abort(new Error('given up')), 300);
    await expect(running).rejects.toThrow('given up');
  });

  test('ends as a sensor when its readings are no longer used', async () => {
    const over = new AbortController();
    const source = execStreamSource({ command: ['sh', '-c', `${LEFT_BEHIND} echo 1; sleep 60`] });
    const refuse = (): void => over.abort(new Error('not wanted'));
    const intake = { connected: () => {}, take: refuse, drop: () => {}, rest: async () => {} };
    await expect(source.run(intake, over.signal)).rejects.toThrow('not wanted');
  });
});

// Regression: "spawn /nowhere/program ENOENT".
test('names a program that is missing', async () => {
  const running = runProgram(['/nowhere/program'], { timeoutMs: 9_000 }, new AbortController().signal);
  await expect(running).rejects.toMatchObject({ message: '/nowhere/program: no such program' });
});

// Regression: "Cannot read properties of undefined (reading 'on')", and the end of the daemon.
test('a program that cannot start for lack of descriptors is a clear error', async () => {
  const source = join(import.meta.dirname, '../../../../src/system/processes/child-process.ts');
  const script = `
    import { openSync } from 'node:fs';
    const { runProgram } = await import(${JSON.stringify(source)});
    const tried = async () => runProgram(['true'], { timeoutMs: 9_000 }, new AbortController().signal);
    await tried();
    try { for (;;) openSync('/dev/null'); } catch (error) { if (error.code !== 'EMFILE') throw error; }
    await tried().catch(({ code, message }) => console.log(code, message));`;
  const node = [process.execPath, '--input-type=module', '--eval', script];
  const { stdout } = await promisify(execFile)('prlimit', ['--nofile=40', ...node]);
  expect(stdout).toBe('program-missing true: spawn true EMFILE\n');
});
