import fc from 'fast-check';
import { expect, test } from 'vitest';

import { SourceSeries } from '../../../../src/telemetry/source-series.ts';
import { SteppedClock } from '../../../fakes/clock.ts';

const over = { periodMs: 60_000, aggregate: 'last' } as const;
const reduction = { scale: undefined, offset: undefined, deadband: undefined, heartbeatMs: undefined, over };
const output = { to: { kind: 'event', event: 'room', class: 'normal' }, pointer: '', reduction } as const;

/** A source with one output that sends the last reading of each minute, and a clock that counts how often it wakes. */
function rig() {
  const clock = new SteppedClock();
  const sent: (readonly [atMs: number, series: string, value: unknown])[] = [];
  const series = new SourceSeries(
    { outputs: [output], ignore: [] },
    {
      clock,
      onValue: (_, value, name) => void sent.push([clock.monotonicMs(), name, value]),
      onDrop: (_, why) => expect.fail(why),
    },
  );
  const ending = new AbortController();
  const running = series.run(ending.signal).catch((error: unknown) => error);
  const wait = async (ms: number): Promise<void> => clock.sleep(ms, ending.signal);
  const stop = async (): Promise<void> => {
    ending.abort();
    await running;
    series.end();
  };
  return { clock, sent, series, wait, stop };
}

test('sends the last period of a source that falls silent', async () => {
  const { sent, series, wait, stop } = rig();
  series.push(21.5, '');
  await wait(10_000);
  series.push(22, '');
  await wait(600_000);
  expect(sent).toEqual([[61_000, '', 22]]);
  await stop();
  expect(sent).toHaveLength(1);
});

test('ends the period of each series at its own time', async () => {
  const { sent, series, wait, stop } = rig();
  for (const name of ['a', 'b', 'c']) {
    series.push(name, name);
    await wait(20_000);
  }
  await wait(60_000);
  expect(sent).toEqual([
    [61_000, 'a', 'a'],
    [81_000, 'b', 'b'],
    [101_000, 'c', 'c'],
  ]);
  await stop();
});

test('sends what is gathered when it stops, and of a series that it forgets', async () => {
  const { sent, series, stop } = rig();
  for (let name = 0; name < 1_002; name += 1) series.push(name, `room/${name}`);
  expect(sent).toEqual([
    [0, 'room/0', 0],
    [0, 'room/1', 1],
  ]);
  await stop();
  expect(sent).toHaveLength(1_002);
});

test('costs no wakeup where readings end each period, nor where there are none', async () => {
  const { clock, sent, series, wait, stop } = rig();
  await wait(3_600_000);
  for (let minute = 0; minute < 60; minute += 1) {
    series.push(minute, '');
    await wait(60_000);
  }
  expect([sent.length, clock.wakeups]).toEqual([59, 61]);
  await stop();
});

test('loses no reading, whenever they come and it stops', async () => {
  const readings = fc.array(fc.record({ afterMs: fc.nat(90_000), series: fc.constantFrom('a', 'b', 'c') }));
  await fc.assert(
    fc.asyncProperty(readings, async (given) => {
      const { sent, series, wait, stop } = rig();
      const lasts = new Map<string, number>();
      for (const [index, { afterMs, series: name }] of given.entries()) {
        await wait(afterMs);
        series.push(index, name);
        lasts.set(name, index);
      }
      await stop();
      expect(new Map(sent.map(([, name, value]) => [name, value]))).toEqual(lasts);
    }),
  );
});
