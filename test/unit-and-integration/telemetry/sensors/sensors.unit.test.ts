import { describe, expect, test } from 'vitest';

import { sensorUnits } from '../../../../src/control/telemetry-protocol.ts';
import type { SensorReport } from '../../../../src/control/telemetry-protocol.ts';
import { readingText } from '../../../../src/telemetry/reading-text.ts';
import { ReadingRate } from '../../../../src/telemetry/sensors/reading-rate.ts';
import { outputReports, sensorReport } from '../../../../src/telemetry/sensors/sensor-report.ts';
import { trySource } from '../../../../src/telemetry/sensors/try-sensor.ts';
import { unitOf } from '../../../../src/telemetry/sensors/unit.ts';
import type { MeasurementSettings, SourceSettings } from '../../../../src/telemetry/settings.ts';
import { inTime } from '../../../../src/telemetry/sources/create-source.ts';
import { sourceFailed } from '../../../../src/telemetry/sources/source.ts';
import { noLogin } from '../../mqtt/no-login.ts';

const forever = new AbortController().signal;
const iio = (channel: string): SourceSettings => ({ kind: 'iio', device: 'd', channel });
const hwmon = (input: string): SourceSettings => ({ kind: 'hwmon', chip: 'c', input });
const register = { unit: 7, table: 'holding', address: 3, type: 'u16', byteOrder: 'big', wordOrder: 'big' } as const;
const modbus: SourceSettings = { kind: 'modbus-tcp', host: 'plc', port: 502, ...register };

function settings(source: SourceSettings, timeoutMs = 1_000): MeasurementSettings {
  return { name: 'sensors[0] (e)', everyMs: 1_000, timeoutMs, source, ignore: [], outputs: [] };
}

test('the rate covers the last readings, and falls during silence', () => {
  const pace = new ReadingRate();
  expect(pace.perMinute(0)).toBeUndefined();
  for (let atMs = 0; atMs <= 1_000_000; atMs += 1_000) pace.note(atMs);
  expect(pace.perMinute(1_000_000)).toBe(60);
  expect(pace.perMinute(1_000_999)).toBe(60);
  expect(pace.perMinute(1_064_000)).toBe(30);
});

// Regression: "61.9 a minute" of a reading every three seconds.
test('the rate leaves out the interval after the start', () => {
  const pace = new ReadingRate();
  for (const atMs of [0, 970, 3_970]) pace.note(atMs);
  expect(pace.perMinute(3_970)).toBe(20);
});

test.each([
  [hwmon('temp1'), '°C'],
  [hwmon('in0'), 'V'],
  [hwmon('intrusion0'), undefined],
  [iio('in_temp'), 'm°C'],
  [iio('in_voltage0'), 'mV'],
  [iio('in_voltage0-voltage1'), 'mV'],
  [iio('in_accel_x'), 'm/s²'],
  [iio('in_voltage0_raw'), undefined],
  [iio('in_proximity'), undefined],
  [{ kind: 'w1', device: '28-1' }, '°C'],
  [{ kind: 'system', metric: 'memory_used_percent' }, '%'],
  [{ kind: 'system', metric: 'network_sent_bytes' }, 'B'],
  [{ kind: 'file', path: '/level' }, undefined],
] as const)('the unit of %j is %s', (source, unit) => {
  expect(unitOf(source)).toBe(unit);
});

describe('the description of a source', () => {
  test.each<[SourceSettings, Partial<SensorReport>]>([
    [modbus, { mode: 'polled', place: 'plc:502 unit 7 holding 3', everyMs: 1_000 }],
    [
      {
        kind: 'mqtt',
        ...noLogin,
        url: 'mqtt://u:pw@b',
        topic: 't/#',
        retained: 'once',
        idleTimeoutMs: undefined,
      },
      { mode: 'pushed', place: 'mqtt://********@b t/#', everyMs: undefined },
    ],
    [
      {
        kind: 'exec',
        command: ['/bin/probe', '--token', 's3cret'],
        user: undefined,
        stream: false,
        idleTimeoutMs: undefined,
      },
      { mode: 'polled', place: '/bin/probe' },
    ],
    [
      { kind: 'exec', command: ['/bin/probe'], user: undefined, stream: true, idleTimeoutMs: undefined },
      { mode: 'pushed' },
    ],
  ])('holds no secret: %j', (source, expected) => {
    const report = sensorReport(settings(source));
    expect(report).toMatchObject(expected);
    expect(JSON.stringify(report)).not.toMatch(/s3cret|pw/);
  });

  test('has what is sent of a reading: a part, scaled, with its unit, and nothing of what is ignored', () => {
    const asItIs = {
      scale: undefined,
      offset: undefined,
      deadband: undefined,
      heartbeatMs: undefined,
      over: undefined,
    };
    const to = { kind: 'event', event: 'e', class: 'normal' } as const;
    const made = (source: SourceSettings, pointer: string, scale: number, reading: unknown) => {
      const outputs = [{ to, pointer, reduction: { ...asItIs, scale } }];
      const [output] = outputReports({ source, ignore: [32_768], outputs }, reading);
      return [output?.value, output?.unit];
    };
    expect(made(iio('in_temp'), '', 1, 21_450)).toEqual(['21450', 'm°C']);
    expect(made(iio('in_temp'), '', 0.001, 21_450)).toEqual(['21.45', '°C']);
    expect(made(iio('in_temp'), '', 0.5, 21_450)).toEqual(['10725', undefined]);
    expect(made(modbus, '/a/0', 0.1, { a: [5] })).toEqual(['0.5', undefined]);
    expect(made(modbus, '/a', 1, { a: '5.5' })).toEqual(['5.5', undefined]);
    expect(made(modbus, '/b', 1, { a: [5] })).toEqual([undefined, undefined]);
    expect(made(modbus, '', 0.1, 32_768)).toEqual([undefined, undefined]);
    expect(made(modbus, '', 0.1, '21,5')).toEqual([undefined, undefined]);
  });

  test('is limited for any readings', () => {
    expect(readingText(undefined)).toBeUndefined();
    expect(readingText({ a: 'x'.repeat(10_000) })).toHaveLength(201);
    expect(readingText('\u001B')).toBe(String.raw`"\u001b"`);
  });

  test('has words that the socket knows', () => {
    const units = ['temp1', 'in0', 'curr1', 'power1', 'energy1', 'fan1', 'humidity1'].map((input) =>
      unitOf(hwmon(input)),
    );
    expect(units.filter((unit) => unit === undefined || !sensorUnits.includes(unit))).toEqual([]);
  });
});

describe('a source that is tried', () => {
  test('yields its reading', async () => {
    expect(await trySource({ kind: 'polled', read: async () => 5 }, settings(modbus), forever)).toBe(5);
  });

  test('fails with what to do about one of its kind', async () => {
    const read = async (): Promise<never> => {
      throw sourceFailed('plc', 'no answer');
    };
    const failed = trySource({ kind: 'polled', read }, settings(modbus), forever);
    await expect(failed).rejects.toMatchObject({
      code: 'source-failed',
      message: 'plc: no answer',
      advice: expect.stringContaining('agent sensors scan modbus plc:502') as string,
    });
  });

  test('is stopped at its deadline, even if it ignores its signal', async () => {
    const read = async (): Promise<never> => new Promise(() => {});
    const late = trySource(inTime({ kind: 'polled', read }, { name: 'x', timeoutMs: 1 }), settings(modbus), forever);
    await expect(late).rejects.toMatchObject({ code: 'source-timeout' });
  });

  test('ends with who asked', async () => {
    const gone = new AbortController();
    const read = async (): Promise<never> => new Promise(() => {});
    const hanging = inTime({ kind: 'polled', read }, { name: 'x', timeoutMs: 60_000 });
    const tried = trySource(hanging, settings(modbus), gone.signal);
    gone.abort(new Error('gone'));
    await expect(tried).rejects.toThrow('gone');
  });

  test('cannot be polled if it is a push source', async () => {
    const tried = trySource({ kind: 'pushed', run: async () => {} }, settings(modbus), forever);
    await expect(tried).rejects.toMatchObject({ code: 'source-not-pollable' });
  });
});
