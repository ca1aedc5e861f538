import { describe, expect, test } from 'vitest';

import { TelemetryError } from '../../../src/telemetry/errors.ts';
import { Measurement } from '../../../src/telemetry/measurement.ts';
import type { ReductionSettings } from '../../../src/telemetry/settings.ts';
import { parseReading } from '../../../src/telemetry/sources/parse-reading.ts';
import { parseLine } from '../../../src/telemetry/sources/serial.ts';
import { sourceFailed } from '../../../src/telemetry/sources/source.ts';
import { toText } from '../../../src/telemetry/value-text.ts';
import { asItIs, forever, MINUTE_MS, output, prints, sensor, speaks } from './sensors/fake-sensor.ts';

describe('a reading that cannot be used', () => {
  test.each([
    ['Python prints a dictionary', "{'t': 4}", 'malformed', 'not JSON, so it has no /t: "{\'t\': 4}"'],
    ['two lines of JSON', '{"t": 4}\n{"t": 5}', 'malformed', 'not JSON, so it has no /t'],
    ['a mistyped pointer', '{"temp": 4}', 'no-match', 'nothing at /t in {"temp":4}'],
    ['a number', '21.5', 'malformed', 'not an object, so it has no /t: 21.5'],
  ])('is dropped with its reason and a sample: %s', async (_, text, reason, why) => {
    const { runner, sent } = sensor(prints(text), {
      outputs: reason === 'malformed' ? [output('/t'), output('/h')] : [output('/t')],
    });
    await runner.once(forever);
    expect(runner.figures).toMatchObject({ state: 'delivering', readings: 0, dropped: 1, droppedFor: { [reason]: 1 } });
    expect(runner.figures.lastDrop).toContain(why);
    expect(sent).toEqual([]);
  });

  test('is one that the configuration ignores, before scale and offset', async () => {
    const halved = { ...asItIs, scale: 0.5 };
    const { runner, sent } = sensor(prints('32768', '16384', '-1'), {
      outputs: [output('', halved)],
      ignore: [32_768, -1],
    });
    for (let count = 0; count < 3; count += 1) await runner.once(forever);
    expect(sent).toEqual([8_192]);
    expect(runner.figures).toMatchObject({
      readings: 1,
      droppedFor: { ignored: 2 },
      lastDrop: 'the configuration ignores -1',
    });
  });

  test('is text that would be scaled', async () => {
    const { runner, sent } = sensor(prints('21,5', '21.5'), { outputs: [output('', { ...asItIs, scale: 2 })] });
    for (let count = 0; count < 2; count += 1) await runner.once(forever);
    expect(sent).toEqual([43]);
    expect(runner.figures).toMatchObject({
      droppedFor: { 'not-a-number': 1 },
      lastDrop: '"21,5" is not a finite number',
    });
  });

  const compared: ReductionSettings = { ...asItIs, deadband: { kind: 'absolute', value: 0.2 } };
  const inJson = ['{"t": "22.3"}', '{"t": "22.4"}', '{"t": "22.9 °C"}', '{"t": "unavailable"}', '{"t": "nan"}'];
  const asTexts = ['22.3', '22.4', '22.9 °C', 'unavailable', 'nan'];

  // Regression: `scale = 1` demanded no number, and a deadband had no effect on a number that was a text in JSON.
  test.each<[string, ReductionSettings, readonly unknown[]]>([
    ['no setting', asItIs, asTexts],
    ['aggregate = "last"', { ...asItIs, over: { periodMs: 1, aggregate: 'last' } }, asTexts],
    ['scale = 1', { ...asItIs, scale: 1 }, [22.3, 22.4, 22.9]],
    ['offset = 0', { ...asItIs, offset: 0 }, [22.3, 22.4, 22.9]],
    ['aggregate = "max"', { ...asItIs, over: { periodMs: 1, aggregate: 'max' } }, [22.3, 22.4, 22.9]],
    ['deadband = 0.2', compared, [22.3, 22.9]],
  ])('is a text in JSON that is not the number which %s needs', async (_, reduction, expected) => {
    const measurement = new Measurement({ outputs: [output('/t', reduction)], ignore: [] });
    const sent: unknown[] = [];
    const onValue = (_to: unknown, value: unknown): void => void sent.push(value);
    for (const [index, text] of inJson.entries()) measurement.push(parseReading(text), index * 10, onValue, () => {});
    measurement.end(onValue);
    expect(sent).toEqual(expected);
  });

  test('is an ignored number, also as a text in JSON', async () => {
    const { runner, sent } = sensor(prints('{"t": "-9999"}', '{"t": "21"}'), {
      outputs: [output('/t')],
      ignore: [-9999],
    });
    for (let count = 0; count < 2; count += 1) await runner.once(forever);
    expect(sent).toEqual(['21']);
    expect(runner.figures).toMatchObject({ droppedFor: { ignored: 1 } });
  });

  test.each(['nan', '-inf', 'null', '{"t": 1e999}', '{"t": null}'])('is not a finite number: %s', async (text) => {
    const { runner, sent } = sensor(prints(text), { outputs: [output(text.startsWith('{') ? '/t' : '')] });
    await runner.once(forever);
    expect(sent).toEqual([]);
    expect(runner.figures).toMatchObject({ readings: 0, droppedFor: { 'not-a-number': 1 } });
  });

  // Regression: the NaN of a sensor that was unplugged lost the readings of the others.
  test.each(['NaN', 'Infinity', '-Infinity', 'nan', '-inf'])('is a member %s, and only that member', async (member) => {
    const { runner, sent } = sensor(prints(`{"t": 21.5, "h": ${member}}`), { outputs: [output('/t'), output('/h')] });
    await runner.once(forever);
    expect(sent).toEqual([21.5]);
    expect(runner.figures).toMatchObject({
      readings: 1,
      droppedFor: { 'not-a-number': 1 },
      lastDrop: '/h: null is not a finite number',
    });
  });

  test('is a part of pairs that is not a number, and only that part', async () => {
    const { source, say } = speaks();
    const { runner, sent } = sensor(source, { outputs: [output('/t'), output('/h')] });
    void runner.once(forever);
    await say((intake) => intake.take(() => parseLine('t=21.5 h=nan', undefined), ''));
    expect(sent).toEqual([21.5]);
    expect(runner.figures).toMatchObject({ readings: 1, droppedFor: { 'not-a-number': 1 } });
  });

  // Regression: an output of the entire reading lost all pairs.
  test('is null within an object that is sent', () => {
    expect(toText(parseLine('t=21.5 h=nan', undefined))).toBe('{"t":21.5,"h":null}');
  });

  test('leaves the other outputs their values, and counts as failing while it lasts', async () => {
    const { runner, sent, clock } = sensor(prints('{"t": 4}'), { outputs: [output('/t'), output('/x')] });
    await runner.once(forever);
    clock.advance(11 * MINUTE_MS);
    await runner.once(forever);
    expect(sent).toEqual([4, 4]);
    expect(runner.figures).toMatchObject({ readings: 2, dropped: 2, lastDrop: 'nothing at /x in {"t":4}' });
    expect(runner.figures).toMatchObject({ state: 'delivering', failingForMs: 11 * MINUTE_MS });
  });

  test('excludes a message without a part that the pointer found a little before', async () => {
    const outputs = [output('/t'), output('/battery')];
    const texts = ['{"t": 1, "battery": 99}', '{"t": 2}', '{"battery": 98}', '{"link": 7}'];
    const { runner, sent, clock } = sensor(prints(...texts), { outputs });
    for (let count = 0; count < 4; count += 1) {
      await runner.once(forever);
      clock.advance(MINUTE_MS);
    }
    expect(sent).toEqual([1, 99, 2, 98]);
    expect(runner.figures).toMatchObject({ state: 'parsing', dropped: 0 });
    clock.advance(11 * MINUTE_MS);
    await runner.once(forever);
    expect(runner.figures).toMatchObject({ dropped: 2 });
  });
});

/** Passes on lines as boards print them, of a serial port without a pattern. */
async function hear(line: string) {
  const { source, say } = speaks();
  const { runner, sent } = sensor(source);
  void runner.once(forever);
  await say((intake) => intake.take(() => parseLine(line, undefined), line));
  return { figures: runner.figures, sent };
}

test.each([
  '21,5',
  'T=21,5 H=40',
  'temp: 21.5',
  '\0\0t=21.5',
  '21.5\u001B[0m',
  '$GPGGA,123519,4807.038,N*47',
  '12:30:05',
  'boot: ready',
  '3 sensors not found',
  '2026 Nov 27 21.5',
])('drops a line without a reading, and keeps a sample: %j', async (line) => {
  const { figures } = await hear(line);
  expect(figures).toMatchObject({ state: 'delivering', dropped: 1, droppedFor: { malformed: 1 } });
  expect(figures.lastDrop).toContain(JSON.stringify(line));
});

test.each([
  ['21.5 C', 21.5],
  ['+21.5', 21.5],
  ['t=21.5;h=40', { t: 21.5, h: 40 }],
])('takes a line with a reading: %j', async (line, reading) => {
  const { figures, sent } = await hear(line);
  expect(sent).toEqual([reading]);
  expect(figures).toMatchObject({ state: 'parsing', dropped: 0 });
});

test('a pattern picks lines: others count only while it matches none', async () => {
  const { source, say } = speaks();
  const { runner, sent, clock } = sensor(source);
  void runner.once(forever);
  const line = async (text: string): Promise<void> =>
    say((intake) => intake.take(() => parseLine(text, /^t=(\S+)/), text));
  await line('boot');
  expect(runner.figures).toMatchObject({ state: 'delivering', droppedFor: { 'no-match': 1 } });
  expect(runner.figures.lastDrop).toBe('the pattern matches nothing in "boot"');
  await line('t=4');
  await line('debug');
  expect(sent).toEqual([4]);
  expect(runner.figures).toMatchObject({ state: 'parsing', dropped: 1 });
  clock.advance(11 * MINUTE_MS);
  await line('debug');
  expect(runner.figures).toMatchObject({ dropped: 2 });
});

describe('a push source', () => {
  test('is connected, delivering, parsing', async () => {
    const { source, say } = speaks();
    const { runner } = sensor(source);
    void runner.once(forever);
    expect(runner.figures.state).toBeUndefined();
    await say((intake) => intake.connected());
    expect(runner.figures.state).toBe('connected');
    await say((intake) => intake.take(() => parseLine('boot', undefined), 'boot'));
    expect(runner.figures.state).toBe('delivering');
    await say((intake) => intake.take(() => parseLine('4', undefined), '4'));
    expect(runner.figures.state).toBe('parsing');
  });

  test('stops failing when it is connected again, though nothing has arrived', async () => {
    const { source, say, fail } = speaks();
    const { runner } = sensor(source);
    const first = runner.once(forever);
    await fail(sourceFailed('broker', 'ECONNREFUSED'));
    await first;
    expect(runner.figures).toMatchObject({ state: undefined, lastError: 'broker: ECONNREFUSED', failures: 1 });
    void runner.once(forever);
    await say((intake) => intake.connected());
    expect(runner.figures).toMatchObject({ state: 'connected', lastError: undefined, failingForMs: undefined });
  });

  test('that was silent too long fails until something comes', async () => {
    const { source, say, fail } = speaks();
    const { runner, clock } = sensor(source);
    const first = runner.once(forever);
    await fail(new TelemetryError('source-timeout', 'no byte for 300000 ms'));
    await first;
    void runner.once(forever);
    clock.advance(MINUTE_MS);
    await say((intake) => intake.connected());
    expect(runner.figures).toMatchObject({ lastError: 'no byte for 300000 ms', failingForMs: MINUTE_MS });
    await say((intake) => intake.drop('too-long', 'a line longer than 4096 bytes'));
    expect(runner.figures).toMatchObject({ state: 'delivering', lastError: undefined });
  });

  test('that connects and fails again and again has failed since the first time', async () => {
    const { source, say, fail } = speaks();
    const { runner, clock } = sensor(source);
    for (let count = 0; count < 12; count += 1) {
      const once = runner.once(forever);
      await say((intake) => intake.connected());
      await fail(sourceFailed('program', 'ended with 1'));
      await once;
      clock.advance(MINUTE_MS);
    }
    expect(runner.figures).toMatchObject({ failures: 12, failingForMs: 12 * MINUTE_MS });
    const steady = runner.once(forever);
    await say((intake) => intake.connected());
    clock.advance(MINUTE_MS);
    await fail(sourceFailed('program', 'ended with 1'));
    await steady;
    expect(runner.figures).toMatchObject({ failures: 13, failingForMs: 0 });
  });
});

test('how long a source has been silent is known from the start on', async () => {
  const { runner, clock } = sensor({
    kind: 'polled',
    read: async () => Promise.reject(sourceFailed('x', 'is missing')),
  });
  await runner.once(forever);
  clock.advance(MINUTE_MS);
  expect(runner.figures).toMatchObject({
    lastReadingAgeMs: undefined,
    silentForMs: MINUTE_MS,
    failingForMs: MINUTE_MS,
  });
});
