import { expect, test } from 'vitest';

import { runRecovery } from '../../../../src/daemon/cycles/rounds.ts';
import type { Wiring } from '../../../../src/daemon/wiring/wiring.ts';
import { initialState } from '../../../../src/update/journal/state.ts';

// Regression: the log claimed "No interrupted update", which a lost journal cannot show.
test('a recovery without a journal does not deny an interrupted update', async () => {
  const journal = { state: { ...initialState, phase: { kind: 'lost' } } };
  const settle = async (): Promise<unknown> => {
    journal.state = { ...initialState, phase: { kind: 'idle' } };
    return { kind: 'settled' };
  };
  const wiring = { journal, updater: { settle }, boards: { recover: async () => {} } } as unknown as Wiring;
  const reason: unknown = expect.stringContaining('unknown whether an update was interrupted');
  expect(await runRecovery(wiring, () => {}, new AbortController().signal)).toMatchObject({ reason });
});
