import process from 'node:process';

import { expect, test } from 'vitest';

import { silentLog } from '../../../../src/system/log/log.ts';
import { runProgram } from '../../../../src/system/processes/child-process.ts';
import { asUser, programEnvironment, refuseRights } from '../../../../src/system/processes/program-rights.ts';
import { systemClock } from '../../../../src/system/time/clock.ts';
import { execSource, execStreamSource } from '../../../../src/telemetry/sources/exec.ts';
import { Watch } from '../../../../src/telemetry/watch.ts';
import { createHealthGate } from '../../../../src/update/trial/health.ts';
import { FakeValues } from '../../telemetry/fake-values.ts';

const signal = new AbortController().signal;
const options = { timeoutMs: 20_000 };

test('a program gets what it needs to run, and nothing that could be a secret or steer a runtime', () => {
  const environment = {
    PATH: '/bin',
    LC_TIME: 'C',
    TZ: 'UTC',
    SECRET_TOKEN: 'abc',
    HTTPS_PROXY: 'http://user:PASS@proxy',
    NODE_OPTIONS: '--require=/tmp/x',
    LD_PRELOAD: '/tmp/x.so',
    NOTIFY_SOCKET: '/run/systemd/notify',
  };
  expect(programEnvironment(environment)).toEqual({ PATH: '/bin', LC_TIME: 'C', TZ: 'UTC' });
});

test.each([
  ['run', async () => (await runProgram(['env'], options, signal)).stdout],
  ['asked', async () => String(await execSource({ command: ['env'] }, 20_000).read(signal))],
])('a program that is %s sees none of the agent’s environment', async (_, environmentOf) => {
  process.env['SECRET_TOKEN'] = 'S3CRET';
  try {
    const said = await environmentOf();
    expect(said).toContain('PATH=');
    expect(said).not.toContain('S3CRET');
  } finally {
    delete process.env['SECRET_TOKEN'];
  }
});

test('a user’s program has the rights and groups of this user, and never the agent’s', async () => {
  const show = 'id -un; id -Gn; printenv HOME; cat /proc/self/status | grep -E "^(CapEff|NoNewPrivs)"';
  const { stdout } = await runProgram(['sh', '-c', show], { ...options, user: 'nobody' }, signal);
  expect(stdout.replaceAll('\t', ' ').trim().split('\n')).toEqual([
    'nobody',
    'nogroup',
    '/nonexistent',
    'CapEff: 0000000000000000',
    'NoNewPrivs: 1',
  ]);
});

test('a program of an unknown user fails, and does not run as another', async () => {
  const found = await runProgram(['id', '-un'], { ...options, user: 'nobody-here' }, signal);
  expect(found).toMatchObject({ exitCode: 125, stdout: '', stderr: expect.stringContaining('nobody-here') as unknown });
});

test('a program that keeps running has the user’s rights, and ends with its children', async () => {
  const stop = new AbortController();
  const heard: unknown[] = [];
  const intake = {
    take: (read: () => unknown) => {
      heard.push(read());
      stop.abort(new Error('enough'));
    },
    connected: () => {},
    drop: () => {},
    rest: () => undefined,
  };
  const source = execStreamSource({ command: ['sh', '-c', 'id -un; sleep 1000'], user: 'nobody' });
  await expect(source.run(intake, stop.signal)).rejects.toThrow('enough');
  expect(heard).toEqual(['nobody']);
});

const nobody = { isRoot: false, name: 'nobody' };

test('an agent without root runs programs of its own user directly, and reports that it cannot run other users’ programs', async () => {
  expect(asUser(['id'], 'nobody', nobody)).toEqual(['id']);
  await expect(refuseRights(['id'], 'nobody', nobody)).resolves.toBeUndefined();
  await expect(refuseRights(['id'], 'app', nobody)).rejects.toMatchObject({
    code: 'user-unavailable',
    exit: 'configuration',
    message: expect.stringContaining('id cannot run as app: the agent runs as nobody') as unknown,
  });
});

test('health commands and watches run as their user', async () => {
  const user = 'nobody';
  const command = ['sh', '-c', 'test "$(id -un)" = nobody'] as const;
  const ports = { clock: systemClock, run: runProgram, reachService: async () => {} };
  const health = { deadlineMs: 20_000, commands: [command], user, units: [], stableForMs: 0, service: false };
  expect(await createHealthGate(health, ports).check(signal)).toBeUndefined();
  const service = new FakeValues();
  service.properties.set('limit', 30);
  const into = { kind: 'command', command, user, timeoutMs: 20_000 } as const;
  const watch = new Watch({
    watch: { id: 'limit', everyMs: 1_000, output: into },
    service,
    clock: systemClock,
    log: silentLog,
  });
  await watch.poll(signal);
  expect(watch.figures.lastError).toBeUndefined();
});

// Regression: without CAP_KILL the daemon could not end a program of another user, and died of that. The configuration
// names the user, or the program changes to it.
test.each([
  ['nobody', []],
  [undefined, ['setpriv', '--reuid=nobody', '--regid=nogroup', '--clear-groups', '--']],
])('ends a program of another user (%s) without the right to signal all processes', async (user, become) => {
  const sleep = `sleep 3600.${process.pid}`;
  const source = new URL('../../../../src/system/processes/child-process.ts', import.meta.url).href;
  const script = `
    const { runProgram } = await import(${JSON.stringify(source)});
    const options = { ...${JSON.stringify({ user })}, timeoutMs: 500 };
    const held = [...${JSON.stringify(become)}, 'sh', '-c', '${sleep} & ${sleep}'];
    const error = await runProgram(held, options, new AbortController().signal).catch((failure) => failure);
    console.log(error.code);`;
  const withoutKill = [
    'setpriv',
    '--bounding-set=-kill',
    process.execPath,
    '--input-type=module',
    '-e',
    script,
  ] as const;
  const { stdout, stderr } = await runProgram([...withoutKill], options, signal);
  expect([stdout.trim(), stderr]).toEqual(['program-timeout', '']);
  const left = async () => (await runProgram(['pgrep', '--exact', '--full', sleep], options, signal)).stdout;
  await expect.poll(left).toBe('');
});
