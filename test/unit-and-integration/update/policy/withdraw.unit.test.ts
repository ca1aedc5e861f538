import { expect, test } from 'vitest';

import type { DeferralCode } from '../../../../src/control/gateway-state.ts';
import { MemoryJournal } from '../../../../src/update/journal/journal.ts';
import type { Attempt } from '../../../../src/update/journal/state.ts';
import type { Plan } from '../../../../src/update/policy/plan.ts';
import { endObsoleteStaging } from '../../../../src/update/policy/withdraw.ts';

const attempt: Attempt = { id: 'a1', version: { id: '2', name: 'two' }, by: 'service', startedAt: '' };
const clock = { nowMs: () => 0, monotonicMs: () => 0, sleep: async () => {} };
const other = { id: '3', name: 'three' };

function heldBack(code: DeferralCode): Plan {
  return { kind: 'deferred', version: 'two', code, reason: 'so it is' };
}

async function pausedJournal(): Promise<MemoryJournal> {
  const journal = new MemoryJournal();
  await journal.append({ type: 'staging-started', attempt, slot: 'B', at: '' });
  await journal.append({ type: 'staging-paused', at: '' });
  return journal;
}

// Regression in the sweep: the service offered another version while a staging was paused, and the attempt never ended.
test.each<[Plan, string]>([
  [{ kind: 'up-to-date', version: 'one' }, 'withdrawn'],
  [{ kind: 'nothing-offered' }, 'withdrawn'],
  [{ kind: 'reconcile', version: other }, 'withdrawn'],
  [heldBack('attempts-exhausted'), 'attempts-exhausted'],
  [heldBack('quarantined'), 'quarantined'],
  [heldBack('manual-override'), 'manual-override'],
])('a paused staging ends where the plan is %o', async (plan, code) => {
  const journal = await pausedJournal();
  await endObsoleteStaging(plan, { journal, clock });
  expect(journal.state.phase).toEqual({ kind: 'idle' });
  expect(journal.state.reports).toMatchObject([{ attempt: 'a1', outcome: 'failed', code }]);
});

test.each<Plan>([
  { kind: 'install', version: other },
  heldBack('retry-backoff'),
  heldBack('outside-window'),
  heldBack('clock-unsynchronized'),
])('a paused staging waits where the plan is %o', async (plan) => {
  const journal = await pausedJournal();
  await endObsoleteStaging(plan, { journal, clock });
  expect(journal.state.phase.kind).toBe('staging');
  expect(journal.state.reports).toEqual([]);
});

test('nothing ends where nothing is paused', async () => {
  const journal = new MemoryJournal();
  await endObsoleteStaging({ kind: 'nothing-offered' }, { journal, clock });
  expect(journal.state.reports).toEqual([]);
});
