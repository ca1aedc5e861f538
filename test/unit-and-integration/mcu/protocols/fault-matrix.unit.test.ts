import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { howMuch } from '../../../full.ts';
import { subjects } from './contract/subjects.ts';
import {
  acknowledgementsOf,
  cleanRun,
  placesOf,
  printMatrix,
  sweepEcho,
  sweepFault,
  sweepLatency,
  sweepPowerLoss,
  sweepRead,
} from './fault-matrix.ts';
import type { Cell, CleanRun } from './fault-matrix.ts';

describe.each(Object.entries(subjects))('a flash over %s', (name, subject) => {
  const rows: [string, Cell][] = [];
  const places = Math.max(2, (subject.places ?? 32) / howMuch(1, 4, 8));
  let clean: CleanRun = { counts: { 'to-board': 0, 'to-host': 0 }, acknowledgements: [] };

  beforeAll(async () => {
    clean = await cleanRun(subject);
  });

  afterAll(() => printMatrix(name, rows));

  test.each(['drop', 'flip', 'insert', 'mute', 'garbage', 'late', 'replay'] as const)(
    'is finished in spite of a %s anywhere',
    async (kind) => {
      const cell = await sweepFault(subject, kind, placesOf(clean, places));
      rows.push([kind, cell]);
      expect([...cell.failed]).toEqual([]);
    },
  );

  test('is finished in spite of the loss of any acknowledgement', async () => {
    const cell = await sweepFault(subject, 'drop', acknowledgementsOf(clean, places));
    rows.push(['lost answer', cell]);
    expect([...cell.failed]).toEqual([]);
  });

  test('never runs a broken program when the adapter begins to echo anywhere', async () => {
    rows.push(['echo', await sweepEcho(subject, placesOf(clean, places / 2))]);
    expect(rows.length).toBeGreaterThan(0);
  });

  test('resumes after the port was unplugged anywhere', async () => {
    const cell = await sweepFault(subject, 'unplug', placesOf(clean, places / 2));
    rows.push(['unplug', cell]);
    expect([...cell.failed]).toEqual([]);
  });

  test.each([0, 1, 16])('is finished with a latency of %i ms', async (latencyMs) => {
    const cell = await sweepLatency(subject, latencyMs);
    rows.push([`latency ${latencyMs}`, cell]);
    expect(cell.flashed).toBe(1);
  });

  test('that loses power at any block leaves a board that never runs half a program and can be flashed', async () => {
    const cell = await sweepPowerLoss(subject);
    rows.push(['power loss', cell]);
    expect([...cell.failed.keys()]).toEqual(['board-timeout']);
  });
});

const readable = Object.entries(subjects).filter(([name]) => ['stk500v1', 'stk500v2', 'stm32'].includes(name));

describe.each(readable)('what a board holds, over %s', (_, subject) => {
  test.each(['late', 'replay'] as const)('is read right, or not at all, with answers that come %s', async (kind) => {
    const readings = howMuch(60, 20, 10);
    expect(await sweepRead(subject, kind, readings)).toBeLessThan(readings / 2);
  });
});
