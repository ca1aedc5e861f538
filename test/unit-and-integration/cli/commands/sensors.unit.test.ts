import { describe, expect, test } from 'vitest';

import type { OutputOf } from '../../../../src/control/operations.ts';
import { sensorsReply } from '../../../../src/control/telemetry-protocol.ts';
import { AgentError } from '../../../../src/system/errors.ts';
import { type as typeAt } from '../fake-context.ts';
import type { FakeWorld } from '../fake-context.ts';
import { calmSensors, fakeAgent } from '../fake-operations.ts';

async function type(line: string, world: FakeWorld = {}) {
  return typeAt(line.split(' '), { daemon: fakeAgent(), ...world });
}

type Output = OutputOf<'trySensor'>['outputs'][number];

function output(id: string, scale: number, value?: string, unit?: Output['unit']): Output {
  return { kind: 'event', id, pointer: '', scale, offset: 0, value, unit };
}

describe('agent sensors', () => {
  test('prints a line for each through a pipe: kind, last reading with its unit, age, rate, drops, problem since when', async () => {
    const { exitCode, out } = await type('sensors');
    expect(exitCode).toBe(0);
    expect(out).toBe(
      [
        'sensors[0] (temperature)  hwmon; 48.312 °C, 5 s ago; 6.0 a minute',
        'sensors[1] (level)        modbus-rtu; no reading yet; 2 dropped, the last: it is nested too deep; fails for 2 min 10 s: /dev/ttyUSB0: is unplugged (source-failed)',
        'sensors[2]                mqtt; no reading yet',
        '',
      ].join('\n'),
    );
  });

  test('fits a terminal', async () => {
    const { out } = await type('sensors', { columns: 60, env: { NO_COLOR: '1' } });
    expect(Math.max(...out.split('\n').map(({ length }) => length))).toBeLessThanOrEqual(60);
  });

  test('with --json is what the daemon answered', async () => {
    expect(JSON.parse((await type('sensors --json')).out)).toEqual(JSON.parse(JSON.stringify(calmSensors)));
  });

  test('without a daemon reports that above the configured ones', async () => {
    const alone = fakeAgent({ sensors: async () => ({ ...calmSensors, isLive: false }) });
    const { out } = await typeAt(['sensors'], { alone });
    expect(out).toMatch(/^The daemon is not running, .*\nsensors\[0\] \(temperature\) {2}hwmon; cpu_thermal temp1\n/);
    expect(out).not.toContain('reading');
  });

  test('without a configured one explains how to find some', async () => {
    const { out } = await type('sensors', {
      daemon: fakeAgent({ sensors: async () => ({ isLive: true, sensors: [] }) }),
    });
    expect(out).toContain('agent sensors scan KIND');
  });

  test('with a name shows one in detail: where it goes and how it is scaled', async () => {
    const { out } = await typeAt(['sensors', 'sensors[1]'], { daemon: fakeAgent() });
    expect(out).toBe(
      [
        'Sensor        sensors[1] (level)',
        'Source        modbus-rtu: /dev/ttyUSB0 unit 7 holding 3, each 10 s',
        'Outputs       event level, /l × 0.1 - 5',
        '              property level',
        'Last reading  no reading yet',
        'Since start   0 readings, 3 failures',
        'Dropped       2, the last: it is nested too deep',
        'Failing       for 2 min 10 s: /dev/ttyUSB0: is unplugged (source-failed)',
        '',
      ].join('\n'),
    );
  });

  test('shows how long a push source has been silent, its last reading, and the data that arrives instead', async () => {
    const [first] = calmSensors.sensors;
    if (first === undefined) throw new Error('there is none');
    const silent = { ...first, state: 'connected' as const, silentForMs: 720_000, lastReadingAgeMs: 720_000 };
    const none = { ...silent, lastReading: undefined, perMinute: undefined, notice: 'only blank lines (7)' };
    const { out } = await type('sensors', {
      daemon: fakeAgent({ sensors: async () => ({ isLive: true, sensors: [silent, none] }) }),
    });
    expect(out).toContain('hwmon; connected, no reading for 12 min; the last: 48.312 °C, 12 min ago; 6.0 a minute\n');
    expect(out).toContain('hwmon; connected, no reading for 12 min; only blank lines (7)\n');
  });

  test('shows the notice of a sensor that works', async () => {
    const [first] = calmSensors.sensors;
    const sensors =
      first === undefined ? [] : [{ ...first, notice: 'the adapter at /dev/ttyUSB0 echoes what is sent' }];
    const { out } = await type('sensors temperature', {
      daemon: fakeAgent({ sensors: async () => ({ isLive: true, sensors }) }),
    });
    expect(out).toMatch(/^Notice +the adapter at \/dev\/ttyUSB0 echoes what is sent$/m);
  });

  test.each(['temperature', 'sensors[0]', 'sensors[0] (temperature)'])('knows one as %s', async (name) => {
    const { out } = await typeAt(['sensors', name, '--json'], { daemon: fakeAgent() });
    expect(JSON.parse(out)).toMatchObject({ name: 'sensors[0] (temperature)' });
  });

  test('suggests the nearest name for an unknown one', async () => {
    const { exitCode, err } = await type('sensors temprature');
    expect(exitCode).toBe(64);
    expect(err).toMatch(/unknown sensor temprature.*did you mean temperature\?/s);
  });

  test('of a name of several asks which', async () => {
    const [first, second] = calmSensors.sensors;
    if (first === undefined || second === undefined) throw new Error('there are too few');
    const twice = { isLive: true, sensors: [{ ...first, outputs: second.outputs }, second] };
    const daemon = fakeAgent({ sensors: async () => twice });
    const { exitCode, err } = await type('sensors level', { daemon });
    expect(exitCode).toBe(64);
    expect(err).toContain('use one of: sensors[0] (temperature), sensors[1] (level)');
  });
});

describe('agent sensors NAME --try', () => {
  test('shows a reading', async () => {
    const { exitCode, out } = await type('sensors temperature --try');
    expect(exitCode).toBe(0);
    expect(out).toBe('sensors[0] (temperature): 48.3 °C. Nothing was stored or sent.\n');
    const inJson = JSON.parse((await type('sensors temperature --try --json')).out) as unknown;
    expect(inJson).toEqual({
      name: 'sensors[0] (temperature)',
      kind: 'hwmon',
      mode: 'polled',
      reading: '48.3',
      unit: '°C',
      outputs: [],
    });
  });

  test.each<[outputs: OutputOf<'trySensor'>['outputs'], told: string]>([
    [[output('temperature', 0.001, '21.5', '°C')], '21.5 °C (read 21500 m°C)'],
    [[output('temperature', 2, '43000')], '43000 (read 21500 m°C)'],
    [[output('t', 1, '4'), output('h', 1)], 't 4, h nothing (read 21500 m°C)'],
    [[output('temperature', 1, '21500', 'm°C')], '21500 m°C'],
  ])('shows what would be sent, and what was read for it', async (outputs, told) => {
    const daemon = fakeAgent({ trySensor: async () => ({ reading: '21500', unit: 'm°C', outputs }) });
    const { out } = await type('sensors temperature --try', { daemon });
    expect(out).toBe(`sensors[0] (temperature): ${told}. Nothing was stored or sent.\n`);
  });

  test('shows why it failed and what to do, and fails', async () => {
    const failure = {
      code: 'source-failed',
      message: 'no chip',
      remedy: 'retry',
      exit: 'failed',
      advice: 'scan',
    } as const;
    const daemon = fakeAgent({ trySensor: () => Promise.reject(new AgentError(failure)) });
    const { exitCode, err } = await type('sensors temperature --try', { daemon });
    expect(exitCode).toBe(70);
    expect(err).toBe('agent: no chip (source-failed)\n       scan\n');
  });

  test('does not poll a push source, and names the expected message', async () => {
    const daemon = fakeAgent();
    const { exitCode, out } = await type('sensors plant --try', { daemon });
    expect(exitCode).toBe(0);
    expect(out).toBe(
      'sensors[2] is a push source and cannot be read on request: it waits for messages of a broker at mqtt://127.0.0.1 plant/#.\n',
    );
    expect(daemon.calls.map(([name]) => name)).toEqual(['sensors']);
  });

  test('has no list of kinds: it shows the kind of a newer daemon like any other', async () => {
    const sensors = calmSensors.sensors.slice(2).map((sensor) => Object.assign({}, sensor, { kind: 'opc-ua' }));
    const reply = sensorsReply.parse({ isLive: true, sensors });
    const daemon = fakeAgent({ sensors: async () => reply });
    expect((await type('sensors', { daemon })).out).toBe('sensors[2]  opc-ua; no reading yet\n');
    expect((await type('sensors plant --try', { daemon })).out).toContain('it waits for values');
  });

  test('needs a name', async () => {
    const { exitCode, err } = await type('sensors --try');
    expect(exitCode).toBe(64);
    expect(err).toContain('--try needs NAME');
  });
});
