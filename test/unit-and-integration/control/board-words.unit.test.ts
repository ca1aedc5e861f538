import { expect, test } from 'vitest';

import { describeOutcome } from '../../../src/control/presentation/outcome.ts';
import { boardRows, describeProbe } from '../../../src/control/presentation/rows/board-rows.ts';
import { knownBy } from '../../../src/mcu/flash/known-by.ts';

const flashed = { kind: 'flashed', board: 'meter', version: '2.0' } as const;

test.each([
  ['active-slot', 'Done: meter runs 2.0.'],
  ['on-trial', /^Done: meter runs 2.0, on trial: it returns to the previous image .* unless its application confirms/],
  ['sent', 'Done: meter received 2.0; it cannot report its running image.'],
] as const)('claims no more than is known: %s', (known, text) => {
  expect(describeOutcome({ ...flashed, known }, false).text).toMatch(text);
});

test('shows the known state of a board that was left alone', () => {
  const unchanged = { ...flashed, unchanged: true };
  expect(describeOutcome({ ...unchanged, known: 'otadata' }, false).text).toBe(
    'Nothing to do: meter runs 2.0 already.',
  );
  expect(describeOutcome({ ...unchanged, known: 'sent' }, false).text).toBe(
    'Nothing to do: meter contains 2.0; it cannot report its running image.',
  );
});

test('lists how it is known what a board runs, and which slot starts', () => {
  const board = {
    name: 'meter',
    port: '/dev/ttyS1',
    protocol: 'smp',
    connected: true,
    chip: 'MCUboot',
    imageDigest: `sha256:${'b'.repeat(64)}`,
    imageName: '2.0',
    flashedAt: undefined,
    attempts: 1,
    roundTripMs: undefined,
    boots: 'slot 0, version 2.0.0',
  };
  const when = { nowMs: 0, localOffset: () => 0 };
  const texts = knownBy.map((known) => boardRows([{ ...board, known }], when)[0]?.paragraphs[1]);
  for (const text of texts) expect(text).toContain('slot 0, version 2.0.0');
  expect(new Set(texts).size).toBe(knownBy.length);
});

test('reports in a probe which slot starts', () => {
  const probe = { name: 'meter', chip: 'ESP32', capabilities: ['write'], roundTripMs: undefined };
  expect(describeProbe({ ...probe, boots: 'ota_1' })).toBe(
    'meter: ESP32; its bootloader supports write, and starts ota_1.',
  );
});
