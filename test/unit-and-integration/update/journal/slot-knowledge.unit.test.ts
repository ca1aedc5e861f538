import { describe, expect, test } from 'vitest';

import { advance } from '../../../../src/update/journal/reducer.ts';
import type { UpdateEvent, UpdateState } from '../../../../src/update/journal/state.ts';
import { initialState } from '../../../../src/update/journal/state.ts';

const attempt = { id: 'a1', version: { id: '2', name: 'two' }, by: 'service', startedAt: 'monday' } as const;
const boot = { digest: 'sha256:b0', sizeBytes: 5 };
const root = { digest: 'sha256:00', sizeBytes: 9 };
const firmware = {
  digest: 'sha256:f2',
  signedBy: 'release.pem',
  provides: {},
  payloads: [
    { target: 'boot', kind: 'slots' as const, ...boot },
    { target: 'root', kind: 'slots' as const, ...root },
    { target: 'meter', kind: 'mcu' as const, digest: 'sha256:33', sizeBytes: 1 },
  ],
};
const records = {
  boot: { ...boot, version: 'two', signedBy: 'release.pem', at: 'monday' },
  root: { ...root, version: 'two', signedBy: 'release.pem', at: 'monday' },
};

const staging: UpdateEvent = { type: 'staging-started', attempt, slot: 'B', at: '' };
const staged: UpdateEvent = { type: 'staged', firmware, slot: 'B', trials: 2, name: undefined, records };
const toCommitted: readonly UpdateEvent[] = [
  staging,
  { type: 'slot-opened', target: 'boot' },
  { type: 'slot-opened', target: 'root' },
  staged,
  { type: 'trial-armed', bootId: 'one', rebootByHand: false },
  { type: 'health-check-started' },
  { type: 'approved' },
  { type: 'committed', at: 'tuesday', slot: 'B' },
];

function after(events: readonly UpdateEvent[], from: UpdateState = initialState): UpdateState {
  return events.reduce((state, event) => advance(state, event), from);
}

describe('what is known of a slot', () => {
  test('is the verified content of its partitions, once a complete release was accepted', () => {
    const written = after(toCommitted.slice(0, 3));
    expect(written.slots.B).toEqual({ records: {} });
    expect(advance(written, staged).slots.B).toEqual({ records });
  });

  test('is that it was seen to run, once it was committed', () => {
    expect(after(toCommitted).slots).toEqual({ A: { records: {} }, B: { records, seen: { at: 'tuesday' } } });
    expect(after([{ type: 'slot-seen', slot: 'A', at: 'monday' }]).slots.A.seen).toEqual({ at: 'monday' });
  });

  test('goes with the partition that is opened for writing, and so does that the slot was seen to run', () => {
    const state = after(toCommitted);
    const next = after(
      [
        { ...staging, attempt: { ...attempt, id: 'a2' } },
        { type: 'slot-opened', target: 'boot' },
      ],
      state,
    );
    expect(next.slots.B).toEqual({ records: { root: records.root } });
    expect(next.earlier).toEqual([]);
  });

  test('goes with a partition that reads otherwise', () => {
    const next = advance(after(toCommitted), { type: 'records-invalidated', slot: 'B', targets: ['root'] });
    expect(next.slots.B).toEqual({ records: { boot: records.boot } });
  });
});
