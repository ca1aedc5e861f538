import { expect, test } from 'vitest';

import type { OperationEvent } from '../../../src/control/events.ts';
import { ProgressThrottle } from '../../../src/control/progress-throttle.ts';

function pacedAt(times: readonly (readonly [atMs: number, event: OperationEvent])[]) {
  let nowMs = 0;
  const told: OperationEvent[] = [];
  const pace = new ProgressThrottle({ monotonicMs: () => nowMs }, (event) => told.push(event), 200);
  for (const [atMs, event] of times) {
    nowMs = atMs;
    pace.push(event);
  }
  return { told, pace };
}

function transfer(receivedBytes: number): OperationEvent {
  return { kind: 'transfer', receivedBytes, totalBytes: 100 };
}

const verifying: OperationEvent = { kind: 'phase', phase: 'verifying' };

test('received bytes are reported at most once per interval', () => {
  const { told } = pacedAt([
    [0, transfer(1)],
    [100, transfer(2)],
    [199, transfer(3)],
    [200, transfer(4)],
    [399, transfer(5)],
    [400, transfer(6)],
  ]);
  expect(told).toEqual([transfer(1), transfer(4), transfer(6)]);
});

test('the newest bytes are reported before the next phase', () => {
  const { told } = pacedAt([
    [0, transfer(1)],
    [10, transfer(50)],
    [20, transfer(100)],
    [30, verifying],
  ]);
  expect(told).toEqual([transfer(1), transfer(100), verifying]);
});

test('delayed progress is reported on request, once', () => {
  const { told, pace } = pacedAt([
    [0, transfer(1)],
    [10, transfer(2)],
  ]);
  pace.flush();
  pace.flush();
  expect(told).toEqual([transfer(1), transfer(2)]);
});
