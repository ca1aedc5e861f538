import { describe, expect, test } from 'vitest';

import { GrubMachine } from './grub-machine.ts';
import type { GrubDisk, GrubStart } from './grub-machine.ts';

const trial = ['ATTEMPTS=3', 'ORDER=B A', 'A_OK=1', 'A_TRY=0', 'B_OK=1', 'B_TRY=2', 'TRIAL=B'];
const both = ['A', 'B'] as const;

/** Choices of consecutive starts. Each ends in a reset by GRUB, or waits for input. */
async function starts(disk: GrubDisk, ...given: readonly GrubStart[]): Promise<readonly string[]> {
  await using machine = await GrubMachine.open(disk);
  const said: string[] = [];
  for (const start of given) {
    const end = await machine.start(start);
    said.push(end.reset ? end.said : `waits: ${end.said}`);
  }
  return said;
}

describe('the real GRUB', () => {
  test('starts a trial once and falls back, although no slot can be loaded, and never waits', async () => {
    expect(await starts({ environment: trial, there: both }, {}, {}, {})).toEqual([
      'chose=B told=thing.trial=1 counted=1',
      'chose=A told=thing.trial=0 counted=1',
      'chose=A told=thing.trial=0 counted=1',
    ]);
  });

  test('passes over a slot without a kernel', async () => {
    expect(await starts({ environment: trial, there: ['A'] }, {})).toEqual(['chose=A told=thing.trial=0 counted=1']);
  });

  test('does not wait where there is nothing to boot', async () => {
    const disk = { environment: trial, there: [] } as const;
    expect(await starts(disk, { timeByWork: true })).toEqual(['chose=none told=thing.trial=0 counted=1']);
  });

  test('does not start a trial that it cannot count', async () => {
    expect(await starts({ environment: trial, there: both }, { readOnly: true })).toEqual([
      'chose=A told=thing.trial=0 counted=0',
    ]);
  });

  test('chooses, and counts, by the copy of an environment that was spoilt', async () => {
    expect(await starts({ environment: 'spoilt', copy: trial, there: both }, {}, {})).toEqual([
      'chose=B told=thing.trial=1 counted=1',
      'chose=A told=thing.trial=0 counted=1',
    ]);
  });

  test('tries both slots in turn where nothing can be read', async () => {
    const disk = { environment: 'spoilt', copy: 'spoilt', there: both } as const;
    expect(await starts(disk, { minute: 12 }, { minute: 13 })).toEqual([
      'chose=A told= counted=0',
      'chose=B told= counted=0',
    ]);
  });

  test('starts what is there on a new gateway', async () => {
    expect(await starts({ environment: [], copy: [], there: ['B'] }, {})).toEqual(['chose=B told= counted=1']);
  });
});
