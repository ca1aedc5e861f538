import {
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { systemClock } from '../../../src/system/time/clock.ts';
import type { MeasurementSettings } from '../../../src/telemetry/settings.ts';
import { serviceError } from './fake-values.ts';
import { deadline, measurement, noReduction, Rig, until } from './telemetry-rig.ts';

test('what a sensor measures arrives, and a source that fails harms no other', async () => {
  await using rig = new Rig({
    measurements: [
      measurement('load', { kind: 'system', metric: 'load1' }),
      measurement('broken', {
        kind: 'exec',
        command: ['/bin/false'],
        user: undefined,
        stream: false,
        idleTimeoutMs: undefined,
      }),
      measurement(
        'hangs',
        {
          kind: 'exec',
          command: ['/bin/sleep', '60'],
          user: undefined,
          stream: false,
          idleTimeoutMs: undefined,
        },
        100,
        500,
      ),
      measurement('stream', {
        kind: 'exec',
        command: ['/bin/sh', '-c', 'echo {\\"a\\":1}; sleep 60'],
        user: undefined,
        stream: true,
        idleTimeoutMs: undefined,
      }),
    ],
  });
  await until(() => rig.service.valuesOf('load').length >= 3 && rig.service.valuesOf('stream').length === 1);
  expect(rig.service.valuesOf('stream')).toEqual([{ a: 1 }]);
  const failed = (): boolean =>
    rig.telemetry.status().sources.filter(({ lastError }) => lastError !== undefined).length === 2;
  await until(failed);
  const errors = rig.telemetry.status().sources.map(({ lastError }) => lastError);
  expect(errors[0]).toBeUndefined();
  expect(errors[1]).toContain('ended with 1');
  expect(errors[2]).toMatch(/500 ms|still waits/);
});

test('sends the last period of a program that falls silent, also when the agent stops', async () => {
  const averages = (event: string, text: string, periodMs: number): MeasurementSettings => {
    const command = ['/bin/sh', '-c', `echo ${text}; sleep 60`] as [string, ...string[]];
    const source = { kind: 'exec', command, user: undefined, stream: true, idleTimeoutMs: undefined } as const;
    const to = { kind: 'event', event, class: 'normal' } as const;
    const reduction = { ...noReduction, over: { periodMs, aggregate: 'mean' } } as const;
    return { ...measurement(event, source), outputs: [{ to, pointer: '', reduction }] };
  };
  await using rig = new Rig({ measurements: [averages('short', '5', 1_000), averages('long', '7', 3_600_000)] });
  await until(() => rig.service.valuesOf('short').length === 1);
  expect(rig.telemetry.sensors().map(({ readings }) => readings)).toEqual([1, 1]);
  expect(rig.service.valuesOf('long')).toEqual([]);
  await rig.restart();
  await until(() => rig.service.valuesOf('long').length === 1);
  expect([rig.service.valuesOf('short')[0], rig.service.valuesOf('long')[0]]).toEqual([5, 7]);
});

test('the service goes away and comes back: everything that was acknowledged arrives, over a restart too', async () => {
  await using rig = new Rig();
  rig.service.answer = () => serviceError('connection-refused');
  for (let value = 0; value < 20; value += 1) {
    await rig.telemetry.sendDatapoints([{ event: 'e', value }], deadline());
  }
  await rig.restart();
  expect(rig.telemetry.status().spool.pointsOnDisk).toBe(20);
  rig.service.answer = () => undefined;
  await until(() => rig.service.valuesOf('e').length === 20);
  expect(rig.service.valuesOf('e')).toEqual(Array.from({ length: 20 }, (_, index) => index));
  await until(() => rig.telemetry.flush() && rig.telemetry.status().spool.pointsOnDisk === 0);
});

test('a property is durable when it is acknowledged, and the agent tells about itself', async () => {
  await using rig = new Rig();
  rig.service.answerProperty = () => serviceError('connection-refused');
  await rig.telemetry.setProperty('limit', { high: 30 }, deadline());
  await rig.restart();
  rig.service.answerProperty = () => undefined;
  await until(() => rig.service.properties.has('limit') && rig.service.properties.has('figures'));
  expect(rig.service.properties.get('limit')).toEqual({ high: 30 });
  expect([rig.service.properties.get('installed'), rig.service.properties.get('uptime')]).toEqual(['1.2.3', 77]);
  expect(rig.service.properties.get('figures')).toMatchObject({
    waiting: expect.any(Number) as unknown,
    flashBytesPerDay: expect.any(Number) as unknown,
    dropped: 0,
    droppedBecause: { 'too-old': 0, 'queue-full': 0, 'memory-full': 0, refused: 0, damaged: 0 },
  });
});

test('a watched property is handed to a program and a file when it changes', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'watch-'));
  const log = join(directory, 'log');
  const read = (path: string): string => (existsSync(path) ? readFileSync(path, 'utf8') : '');
  await using rig = new Rig({
    watches: [
      {
        id: 'limit',
        everyMs: 20,
        output: { kind: 'command', command: ['/bin/sh', '-c', `cat >> ${log}`], user: undefined, timeoutMs: 5_000 },
      },
      { id: 'limit', everyMs: 20, output: { kind: 'file', path: join(directory, 'file') } },
    ],
  });
  rig.service.properties.set('limit', 1);
  await until(() => read(log).endsWith('1\n'));
  rig.service.properties.set('limit', { high: 2 });
  await until(() => read(log).endsWith('{"high":2}\n') && read(join(directory, 'file')) === '{"high":2}\n');
  expect(read(log).match(/1\n/g)).toHaveLength(1);
  rmSync(directory, { recursive: true });
});

// Regression: a gateway without targets made no request, and dated its datapoints by its own clock.
test('requests the time while datapoints wait for it', async () => {
  await using rig = new Rig({ probe: async () => 'not-yet' });
  const atMs = Date.UTC(2030, 0, 1);
  rig.service.requestTime = async () => {
    rig.telemetry.hear({ atMs, monotonicMs: systemClock.monotonicMs() });
    return true;
  };
  await rig.telemetry.sendDatapoints([{ event: 'level', value: 1 }], deadline());
  await until(() => rig.service.accepted.length > 0);
  const [posted] = rig.service.accepted;
  expect(posted?.datapoints[0]?.at).toMatch(/^(2029-12-31T23:59|2030-01-01T00:00)/);
});

test('a time that cannot be right is refused', async () => {
  await using rig = new Rig();
  const send = rig.telemetry.sendDatapoints([{ event: 'e', value: 1, at: '1970-01-01T00:00:00Z' }], deadline());
  await expect(send).rejects.toThrow(expect.objectContaining({ code: 'time-invalid' }));
});

test('a watched property follows no link at the path of its temporary file', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'watch-'));
  const victim = join(directory, 'victim');
  const path = join(directory, 'limits.json');
  writeFileSync(victim, 'mine');
  symlinkSync(victim, `${path}.new`);
  await using rig = new Rig({ watches: [{ id: 'limit', everyMs: 20, output: { kind: 'file', path } }] });
  rig.service.properties.set('limit', 'owned');
  await until(() => existsSync(path) && readFileSync(path, 'utf8') === '"owned"\n');
  expect(readFileSync(victim, 'utf8')).toBe('mine');
  expect(lstatSync(path).isSymbolicLink()).toBe(false);
  rmSync(directory, { recursive: true });
});

// Regression: the daemon, which runs as root, wrote into the directory that another user's link named.
test('refuses to write a watched property through a directory of another user, and names the fix', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'watch-'));
  const [theirs, victim] = [join(directory, 'theirs'), join(directory, 'victim')];
  for (const path of [theirs, victim]) mkdirSync(path);
  symlinkSync(victim, join(theirs, 'link'));
  chownSync(theirs, 65_534, 65_534);
  const path = join(theirs, 'link', 'limits.json');
  await using rig = new Rig({ watches: [{ id: 'limit', everyMs: 20, output: { kind: 'file', path } }] });
  rig.service.properties.set('limit', 'owned');
  const error = (): string | undefined => rig.telemetry.status().watches[0]?.lastError;
  await until(() => error() !== undefined || existsSync(path));
  expect(existsSync(path)).toBe(false);
  expect(error()).toContain(`${theirs} belongs to user 65534; fix it with: chown root: ${theirs}`);
  rmSync(directory, { recursive: true });
});
