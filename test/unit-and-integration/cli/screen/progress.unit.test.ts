import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { finishedLine, liveLine, phaseLine } from '../../../../src/cli/screen/progress-line.ts';
import { openProgressView } from '../../../../src/cli/screen/progress-view.ts';
import type { OperationEvent } from '../../../../src/control/events.ts';
import {
  advanceProgress,
  beginProgress,
  rateOf,
  timeLeftMs,
  type ProgressState,
} from '../../../../src/control/presentation/progress-state.ts';
import { displayWidth } from '../../../../src/system/log/printable.ts';
import type { Clock } from '../../../../src/system/time/clock.ts';
import { anyText, steering } from '../any-text.ts';
import { fakeContext, stoppedClock, type FakeWorld } from '../fake-context.ts';

const mib = 1024 * 1024;

type Timed = readonly [atMs: number, event: OperationEvent];

function after(...events: readonly Timed[]): ProgressState {
  return events.reduce((state, [atMs, event]) => advanceProgress(state, event, atMs), beginProgress(0));
}

function received(mebibytes: number, total: number | undefined = 512): OperationEvent {
  return {
    kind: 'transfer',
    receivedBytes: mebibytes * mib,
    totalBytes: total === undefined ? undefined : total * mib,
  };
}

const staging: OperationEvent = { kind: 'phase', phase: 'staging', detail: 'gateway-1.5.0 into slot B' };

// Regression: "flashing: app: installing  0 B  0 B/s  12 s", of a package.
test('a step without bytes is shown without them', () => {
  const step: OperationEvent = { kind: 'board', board: 'app', step: 'installing', doneBytes: 0, totalBytes: 0 };
  const state = after([0, { kind: 'phase', phase: 'flashing', detail: 'app' }], [1_000, step]);
  expect(liveLine(state, 12_000, 80)).toBe('flashing: app: installing  12 s');
});

describe('the rate', () => {
  test('covers the last seconds, not the whole time', () => {
    const state = after([0, staging], [0, received(0)], [10_000, received(10)], [14_000, received(210)]);
    expect(rateOf(state, 14_000)).toBe(50 * mib);
    expect(timeLeftMs(state, 14_000)).toBe(6_040);
  });

  test('sinks while nothing comes', () => {
    const state = after([0, staging], [0, received(0)], [2_000, received(100)]);
    expect(rateOf(state, 2_000)).toBe(50 * mib);
    expect(rateOf(state, 4_000)).toBe(25 * mib);
    expect(rateOf(state, 60_000)).toBe(0);
    expect(timeLeftMs(state, 60_000)).toBeUndefined();
  });

  test('is unknown at first', () => {
    const state = after([0, staging], [0, received(0)], [100, received(1)]);
    expect(rateOf(state, 100)).toBeUndefined();
  });

  test('starts again with a new transfer', () => {
    const state = after(
      [0, staging],
      [0, received(0)],
      [1_000, received(100)],
      [2_000, received(0)],
      [3_000, received(10)],
    );
    expect(rateOf(state, 3_000)).toBe(10 * mib);
  });

  test('of a transfer that resumes after a restart counts only new bytes', () => {
    const state = after([0, staging], [0, received(400)], [1_000, received(410)]);
    expect(rateOf(state, 1_000)).toBe(10 * mib);
  });

  test('keeps few samples, however many events come', () => {
    let state = after([0, staging]);
    for (let n = 0; n < 1_000; n += 1) state = advanceProgress(state, received(n / 10), n);
    expect(state.samples.length).toBeLessThanOrEqual(64);
  });
});

describe('the live line', () => {
  const state = after([0, staging], [0, received(0)], [2_000, received(100)]);

  test.each([
    [100, 'staging 19%  [#####-------------------------]  100.0 MiB of 512.0 MiB  50.0 MiB/s  8 s left'],
    [82, 'staging 19%  [###---------------]  100.0 MiB of 512.0 MiB  50.0 MiB/s  8 s left'],
    [62, 'staging 19%  [####------------------]  50.0 MiB/s  8 s left'],
    [42, 'staging 19%  [##------------]  8 s left'],
    [20, 'staging 19%'],
    [6, '19%'],
    [2, '1'],
  ])('in %i columns is «%s»', (columns, line) => {
    expect(liveLine(state, 2_000, columns)).toBe(line);
  });

  test('without a known size shows the received bytes', () => {
    const unsized: OperationEvent = { kind: 'transfer', receivedBytes: 100 * mib, totalBytes: undefined };
    const some = after([0, staging], [0, { ...unsized, receivedBytes: 0 }], [2_000, unsized]);
    expect(liveLine(some, 2_000, 80)).toBe('staging  100.0 MiB  50.0 MiB/s  2 s');
  });

  test('of a phase that moves no bytes tells its time', () => {
    const verifying = after([0, { kind: 'phase', phase: 'verifying', detail: 'slot B' }]);
    expect(liveLine(verifying, 12_000, 80)).toBe('verifying: slot B  12 s');
    expect(liveLine(verifying, 12_000, 19)).toBe('verifying  12 s');
  });

  test('always fits and never steers the terminal', () => {
    const event: fc.Arbitrary<OperationEvent> = fc.oneof(
      fc.record({ kind: fc.constant('phase'), phase: fc.constantFrom('staging', 'health'), detail: anyText }),
      fc.record({
        kind: fc.constant('transfer'),
        receivedBytes: fc.nat(2 ** 31 - 1),
        totalBytes: fc.option(fc.nat(2 ** 31 - 1), { nil: undefined }),
      }),
    );
    const history = fc.array(fc.tuple(fc.nat(5_000), event), { maxLength: 20 });
    fc.assert(
      fc.property(history, fc.integer({ min: 2, max: 200 }), (steps, columns) => {
        let nowMs = 0;
        let now = beginProgress(0);
        for (const [pauseMs, step] of steps) {
          nowMs += pauseMs;
          now = advanceProgress(now, step, nowMs);
          const line = liveLine(now, nowMs, columns);
          // Regression: the ^C of the terminal made the line wrap, and the wrapped part stayed.
          expect(displayWidth(line) + '^C'.length).toBeLessThan(Math.max(columns, 4));
          expect(steering(line)).toEqual([]);
          expect(steering(finishedLine(now, nowMs))).toEqual([]);
        }
      }),
    );
  });
});

test('a finished phase shows its bytes and its duration', () => {
  const state = after([0, staging], [17_000, received(512)]);
  expect(phaseLine(state)).toBe('staging: gateway-1.5.0 into slot B');
  expect(finishedLine(state, 17_000)).toBe('staging: gateway-1.5.0 into slot B  512.0 MiB in 17 s');
  expect(finishedLine(after([0, staging]), 10)).toBe('staging: gateway-1.5.0 into slot B');
});

async function shown(events: readonly Timed[], json: boolean, world: FakeWorld) {
  let nowMs = 0;
  const clock: Clock = { ...stoppedClock, monotonicMs: () => nowMs };
  const context = fakeContext({ clock, ...world });
  {
    await using view = openProgressView(context, json);
    for (const [atMs, event] of events) {
      nowMs = atMs;
      view.show(event);
    }
  }
  return context;
}

const story: readonly Timed[] = [
  [0, { kind: 'phase', phase: 'checking' }],
  [10, staging],
  [20, received(0)],
  [30, received(1)],
  [40, received(2)],
  [2_000, received(512)],
  [2_010, { kind: 'phase', phase: 'verifying' }],
  [5_010, { kind: 'phase', phase: 'done' }],
];

describe('an operation is shown', () => {
  test('to a program as lines of JSON, received bytes not more often than is useful', async () => {
    const { out, err } = await shown(story, true, { columns: 80 });
    expect(err.text).toBe('');
    expect(out.lines.map((line) => JSON.parse(line) as unknown)).toEqual([
      { kind: 'phase', phase: 'checking' },
      staging,
      received(0),
      received(512),
      { kind: 'phase', phase: 'verifying' },
      { kind: 'phase', phase: 'done' },
    ]);
  });

  test('in a log as a line for each phase', async () => {
    const { out, err } = await shown(story, false, {});
    expect(out.text).toBe('');
    expect(err.lines).toEqual(['checking', 'staging: gateway-1.5.0 into slot B', 'verifying']);
    expect(err.pinned).toEqual([]);
  });

  test('on a dumb terminal as in a log', async () => {
    const { err } = await shown(story, false, { columns: 80, env: { TERM: 'dumb' } });
    expect(err.pinned).toEqual([]);
    expect(err.lines).toHaveLength(3);
  });

  test('on a terminal as a live line that becomes a finished one', async () => {
    const { out, err } = await shown(story, false, { columns: 80 });
    expect(out.text).toBe('');
    expect(err.lines).toEqual([
      'checking',
      'staging: gateway-1.5.0 into slot B  512.0 MiB in 2 s',
      'verifying  in 3 s',
    ]);
    expect(err.pinned).toContainEqual(expect.stringContaining('100%'));
    expect(err.pinned.at(-1)).toBeUndefined();
  });

  // Regression: "staged: 48.0 MiB, of which 48.0 MiB were there already" once as if it had ended, and once more.
  test('not as finished after an interruption', async () => {
    const interruption = new AbortController();
    const context = fakeContext({ columns: 80, signal: interruption.signal });
    {
      await using view = openProgressView(context, false);
      view.show(staging);
      interruption.abort();
    }
    expect(context.err.lines).toEqual([]);
    expect(context.err.pinned.at(-1)).toBeUndefined();
  });

  test.each([
    ['update', 'an update, or a check for one, is'],
    ['install', 'the installation of this file is'],
    ['flash', 'the flashing of this board is'],
  ] as const)('with a word on following another: %s', async (operation, what) => {
    const following: Timed = [0, { kind: 'following', operation }];
    const { err } = await shown([following, ...story], false, { columns: 80 });
    expect(err.lines[0]).toBe(`${what} already running; following it`);
  });
});

test('a live line follows the clock and the terminal though nothing happens', async () => {
  let nowMs = 0;
  const wake: (() => void)[] = [];
  const clock: Clock = {
    ...stoppedClock,
    monotonicMs: () => nowMs,
    sleep: (_ms, signal) =>
      new Promise((resolve, reject) => {
        wake.push(resolve);
        signal.addEventListener('abort', () => reject(signal.reason));
      }),
  };
  const context = fakeContext({ clock, columns: 80 });
  await using view = openProgressView(context, false);
  view.show({ kind: 'phase', phase: 'health' });
  nowMs = 7_000;
  wake.at(-1)?.();
  await Promise.resolve();
  await Promise.resolve();
  expect(context.err.pinned.at(-1)).toBe('checking health  7 s');
});
