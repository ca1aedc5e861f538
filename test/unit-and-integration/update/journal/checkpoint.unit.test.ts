import { describe, expect, test } from 'vitest';

import { MemoryJournal } from '../../../../src/update/journal/journal.ts';
import { initialState, updateState } from '../../../../src/update/journal/state.ts';
import type { Attempt, UpdateState } from '../../../../src/update/journal/state.ts';
import { planUpdate } from '../../../../src/update/policy/plan.ts';
import type { Checkpoint } from '../../../../src/update/ports.ts';

const version = { id: '2', name: 'two' };
const attempt: Attempt = { id: 'a1', version, by: 'service', startedAt: '' };
const begun = { type: 'staging-started', attempt, slot: 'B', at: '' } as const;

const ofImage = (offset: number): Checkpoint => ({
  wire: { offset, validator: '"v"', totalBytes: 1000 },
  encoding: 'base64',
  carry: 'ab',
  image: { sizeBytes: offset >> 1, digest: 'sha256:1' },
});
const ofArtifact = (offset: number): Checkpoint => ({
  ...ofImage(offset),
  artifact: {
    head: 'aGVhZA==',
    payload: 1,
    member: { sizeBytes: 600, leftBytes: 300 },
    file: { name: 'rootfs.ext4', sizeBytes: 500 },
    whole: [{ payload: 0, name: 'meter.hex', sizeBytes: 7 }],
  },
});

async function journalWith(...checkpoints: readonly (Checkpoint | undefined)[]): Promise<UpdateState> {
  const journal = new MemoryJournal();
  await journal.append(begun);
  for (const checkpoint of checkpoints) await journal.append({ type: 'checkpointed', checkpoint });
  return journal.state;
}

/** As a start finds it. */
function kept({ phase }: UpdateState): Checkpoint | undefined {
  const { phase: read } = updateState.parse({
    ...initialState,
    ...JSON.parse(JSON.stringify({ phase })),
  });
  return read.kind === 'staging' ? read.checkpoint : undefined;
}

describe('the checkpoint in the journal', () => {
  test('is the last one, of an image or of an artifact', async () => {
    expect(kept(await journalWith(ofImage(10)))).toEqual(ofImage(10));
    expect(kept(await journalWith(ofImage(10), ofArtifact(20)))).toEqual(ofArtifact(20));
    expect(kept(await journalWith(ofArtifact(20), ofImage(30)))).toEqual(ofImage(30));
  });

  test('is gone once it is of no use', async () => {
    expect(kept(await journalWith(ofArtifact(20), undefined))).toBeUndefined();
    expect(kept(await journalWith(ofImage(20), undefined))).toBeUndefined();
  });
});

describe('a transfer that the power cuts again and again', () => {
  async function cutOften(offsets: (cut: number) => number | undefined): Promise<UpdateState> {
    const journal = new MemoryJournal();
    for (let cut = 0; cut < 40; cut += 1) {
      await journal.append(begun);
      const offset = offsets(cut);
      if (offset !== undefined) await journal.append({ type: 'checkpointed', checkpoint: ofArtifact(offset) });
    }
    return journal.state;
  }
  const circumstances = {
    policy: { attempts: 3, window: undefined, quarantineMs: Infinity },
    minuteOfDay: 0,
    nowMs: 0,
    meteredLink: undefined,
    configProblem: undefined,
    manual: false,
    force: false,
  };

  test('is begun again for as long as it gets on', async () => {
    const state = await cutOften((cut) => 10 * (cut + 1));
    expect(planUpdate(state, version, circumstances)).toEqual({ kind: 'install', version });
  });

  test.each([
    ['has no checkpoint', () => undefined],
    ['comes to the same place each time', () => 10],
  ])('is paused where it %s', async (_, offsets) => {
    const state = await cutOften(offsets);
    expect(planUpdate(state, version, circumstances)).toMatchObject({ kind: 'deferred', code: 'retry-backoff' });
  });
});
