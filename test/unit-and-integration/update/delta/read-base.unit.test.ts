import { createHash } from 'node:crypto';

import { expect, test } from 'vitest';

import { requireBases } from '../../../../src/update/delta/base.ts';
import { MemoryJournal } from '../../../../src/update/journal/journal.ts';
import type { Checkpoint, PayloadHeader } from '../../../../src/update/ports.ts';
import { MemorySlots } from '../../../fakes/machine/memory/memory-slots.ts';
import { Power } from '../../../fakes/machine/power.ts';

const signal = new AbortController().signal;
const at = '2026-11-23T00:00:00Z';
const attempt = { id: 'first', version: { id: '2', name: '2' }, by: 'service', startedAt: at } as const;
const checkpoint: Checkpoint = {
  wire: { offset: 700, validator: '"v"', totalBytes: 1000 },
  encoding: 'base64',
  carry: '',
  image: { sizeBytes: 8, digest: `sha256:${'0'.repeat(64)}` },
};

function madeFrom(text: string): PayloadHeader {
  const prefix = { sizeBytes: text.length, digest: `sha256:${createHash('sha256').update(text).digest('hex')}` };
  return { fileName: 'root.delta', target: 'default', digest: undefined, delta: { base: prefix, result: prefix } };
}

/** Number of complete reads of the running partition. */
async function readsOf(journal: MemoryJournal): Promise<number> {
  const slots = new MemorySlots('gateway', { A: 'the old one', B: '' }, new Power(), () => 0);
  let reads = 0;
  const digestOf = slots.digestOf.bind(slots);
  slots.digestOf = async (...of) => {
    reads += 1;
    return digestOf(...of);
  };
  await requireBases(new Map([[madeFrom('the old one'), slots]]), 'B', { journal, signal });
  return reads;
}

test('a base is read before a delta begins, and not again when that resumes after a checkpoint', async () => {
  const journal = new MemoryJournal();
  expect(await readsOf(journal)).toBe(1);
  await journal.append({ type: 'staging-started', attempt, slot: 'B', at });
  expect(await readsOf(journal)).toBe(1);
  await journal.append({ type: 'checkpointed', checkpoint });
  expect(await readsOf(journal)).toBe(0);
});
