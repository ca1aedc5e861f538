import { expect, test } from 'vitest';

import type { HoldCode } from '../../../../src/control/gateway-state.ts';
import type { Plan } from '../../../../src/update/choice/plan.ts';
import { endUnwantedStaging } from '../../../../src/update/choice/withdraw.ts';
import { MemoryJournal } from '../../../../src/update/journal/memory-journal.ts';
import type { Attempt } from '../../../../src/update/journal/state.ts';

const attempt: Attempt = { id: 'a1', version: { id: '2', name: 'two' }, by: 'service', startedAt: '' };
const clock = { nowMs: () => 0, monotonicMs: () => 0, sleep: async () => {} };
const other = { id: '3', name: 'three' };

function heldBack(code: HoldCode): Plan {
  return { kind: 'held-back', version: 'two', code, reason: 'so it is' };
}

async function pausedJournal(): Promise<MemoryJournal> {
  const journal = new MemoryJournal();
  await journal.append({ type: 'staging-started', attempt, slot: 'B', at: '' });
  await journal.append({ type: 'staging-paused', at: '' });
  return journal;
}

// Seen in the sweep: the service named another version while a staging was paused, and the attempt never got an end.
test.each<[Plan, string]>([
  [{ kind: 'up-to-date', version: 'one' }, 'withdrawn'],
  [{ kind: 'nothing-offered' }, 'withdrawn'],
  [{ kind: 'reconcile', version: other }, 'withdrawn'],
  [heldBack('attempts-used-up'), 'attempts-used-up'],
  [heldBack('quarantined'), 'quarantined'],
  [heldBack('installed-by-hand'), 'installed-by-hand'],
])('a paused staging ends where the plan is %o', async (plan, code) => {
  const journal = await pausedJournal();
  await endUnwantedStaging(plan, { journal, clock });
  expect(journal.state.phase).toEqual({ kind: 'idle' });
  expect(journal.state.reports).toMatchObject([{ attempt: 'a1', outcome: 'failed', code }]);
});

test.each<Plan>([
  { kind: 'install', version: other },
  heldBack('cooling-down'),
  heldBack('outside-window'),
  heldBack('clock-not-set'),
])('a paused staging waits where the plan is %o', async (plan) => {
  const journal = await pausedJournal();
  await endUnwantedStaging(plan, { journal, clock });
  expect(journal.state.phase.kind).toBe('staging');
  expect(journal.state.reports).toEqual([]);
});

test('nothing ends where nothing is paused', async () => {
  const journal = new MemoryJournal();
  await endUnwantedStaging({ kind: 'nothing-offered' }, { journal, clock });
  expect(journal.state.reports).toEqual([]);
});
