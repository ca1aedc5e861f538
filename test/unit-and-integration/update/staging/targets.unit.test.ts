import { expect, test } from 'vitest';

import type { Target } from '../../../../src/update/ports.ts';
import { placesOf } from '../../../../src/update/staging/targets.ts';

// Regression: "staging: slot B" on a gateway that has no slots.
test('what is staged goes to a slot, once however many partitions it has, or to boards and packages by their names', () => {
  const named = (kind: Target['kind'], name: string) => ({ kind, name }) as Target;
  expect(placesOf([named('slots', 'boot'), named('slots', 'root'), named('mcu', 'meter')], 'B')).toBe('slot B, meter');
  expect(placesOf([named('package', 'agent')], 'B')).toBe('agent');
});
