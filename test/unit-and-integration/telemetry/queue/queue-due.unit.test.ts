import { expect, test } from 'vitest';

import { noStreams, points, QueueRig } from './queue-rig.ts';

// Regression: `run` wrote again and again without a pause.
test('a write that a delivery has made is no longer due', () => {
  using rig = new QueueRig();
  rig.queue.push(points(3));
  rig.queue.flush();
  for (const accepted of [1, 0, 0]) {
    const batch = rig.queue.take('backlog', 1, noStreams);
    if (batch === undefined) throw new Error('there is a batch');
    if (accepted > 0) rig.queue.accepted(batch, accepted);
    rig.queue.release(batch);
  }
  rig.clock.advance(3_600_000);
  rig.queue.flush();
  expect(rig.queue.msUntilDue()).toBeGreaterThan(0);
});
