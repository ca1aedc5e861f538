import { describe, expect, test } from 'vitest';

import { TelemetryError } from '../../../../src/telemetry/errors.ts';
import { parseReading } from '../../../../src/telemetry/sources/parse-reading.ts';
import type { ReadingSink } from '../../../../src/telemetry/sources/source.ts';
import { forever, MINUTE_MS, prints, sensor, speaks } from './fake-sensor.ts';

// Regression: each of these looked connected and well for ever.
describe('a push source without data', () => {
  const blank = (intake: ReadingSink): void => intake.drop('empty', 'blank lines', 2);
  const emptyMessage = (intake: ReadingSink): void => intake.take(() => parseReading(''));

  test.each([
    ['blank lines', blank, 2],
    ['empty messages', emptyMessage, 1],
  ])('that delivers only %s fails after ten minutes, and is noted immediately', async (what, arrive, count) => {
    const { source, say } = speaks();
    const { runner, clock } = sensor(source);
    void runner.once(forever);
    await say((intake) => intake.connected());
    for (let minute = 0; minute <= 10; minute += 1) {
      await say(arrive);
      expect(runner.details).toMatchObject({
        state: 'connected',
        dropped: 0,
        notice: `only ${what} (${count * (minute + 1)})`,
      });
      clock.advance(MINUTE_MS);
    }
    await say(arrive);
    expect(runner.details).toMatchObject({
      state: 'delivering',
      droppedFor: { empty: 12 * count },
      lastDrop: what,
      failingForMs: 11 * MINUTE_MS,
      notice: undefined,
    });
    await say((intake) => intake.take(() => 4));
    await say(arrive);
    expect(runner.details).toMatchObject({ state: 'parsing', dropped: 12 * count, failingForMs: undefined });
  });

  test('between readings drops nothing', async () => {
    const { source, say } = speaks();
    const { runner, clock } = sensor(source);
    void runner.once(forever);
    for (let count = 0; count < 30; count += 1) {
      await say(blank);
      await say((intake) => intake.take(() => count));
      clock.advance(9 * MINUTE_MS);
    }
    expect(runner.details).toMatchObject({ readings: 30, dropped: 0, state: 'parsing', notice: undefined });
  });

  test('after readings is failing ten minutes after the last one', async () => {
    const { source, say } = speaks();
    const { runner, clock } = sensor(source);
    void runner.once(forever);
    await say((intake) => intake.take(() => 4));
    for (let minute = 0; minute <= 11; minute += 1) {
      await say(blank);
      clock.advance(MINUTE_MS);
    }
    expect(runner.figures).toMatchObject({ state: 'delivering', failingForMs: 11 * MINUTE_MS, dropped: 24 });
  });

  test('after a burst of readings is connected, since only the operator knows whether that is usual', async () => {
    const { source, say } = speaks();
    const { runner, clock } = sensor(source);
    void runner.once(forever);
    await say((intake) => intake.connected());
    for (let count = 0; count < 30; count += 1) await say((intake) => intake.take(() => count));
    clock.advance(10 * MINUTE_MS);
    expect(runner.figures.state).toBe('parsing');
    clock.advance(MINUTE_MS);
    expect(runner.figures).toMatchObject({ state: 'connected', silentForMs: 11 * MINUTE_MS, failingForMs: undefined });
  });

  // Regression: each reopening of a silent port began the time of the failure again, so that it never needed attention.
  test('that is reopened again and again has failed since its last arrival', async () => {
    const { source, say, fail } = speaks();
    const { runner, clock } = sensor(source);
    for (let count = 0; count < 4; count += 1) {
      const once = runner.once(forever);
      await say((intake) => intake.connected());
      if (count === 0) await say((intake) => intake.take(() => 4));
      clock.advance(5 * MINUTE_MS);
      await fail(new TelemetryError('source-timeout', 'no byte for 300000 ms'));
      await once;
    }
    expect(runner.figures).toMatchObject({ failures: 4, failingForMs: 20 * MINUTE_MS });
  });
});

describe('a source that is read at intervals', () => {
  test('keeps its state between them', async () => {
    const { runner, clock } = sensor(prints('4'), { everyMs: 60 * MINUTE_MS });
    await runner.once(forever);
    clock.advance(60 * MINUTE_MS);
    expect(runner.figures).toMatchObject({ state: 'parsing', failingForMs: undefined });
  });

  // Regression: a source whose reading waited for its line showed its last one, of hours ago, as if it worked.
  test('fails if its next reading is ten minutes overdue', async () => {
    const { runner, clock } = sensor(prints('4'), { everyMs: MINUTE_MS, timeoutMs: MINUTE_MS });
    await runner.once(forever);
    clock.advance(12 * MINUTE_MS - 1);
    expect(runner.details).toMatchObject({ lastError: undefined, lastErrorCode: undefined, failingForMs: undefined });
    clock.advance(1);
    expect(runner.details).toMatchObject({
      lastError: 'probe: the next reading is overdue',
      lastErrorCode: 'source-timeout',
      failingForMs: 10 * MINUTE_MS,
    });
    await runner.once(forever);
    expect(runner.details).toMatchObject({ lastError: undefined, lastErrorCode: undefined, failingForMs: undefined });
  });

  test('fails if its first reading does not end', async () => {
    const { runner, clock } = sensor({ kind: 'polled', read: async () => new Promise(() => {}) });
    void runner.once(forever);
    clock.advance(11 * MINUTE_MS);
    expect(runner.figures).toMatchObject({ state: undefined, lastError: 'probe: the next reading is overdue' });
  });
});
