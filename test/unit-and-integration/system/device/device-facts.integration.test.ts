import { expect, test } from 'vitest';

import { dmiSerialNumbers } from '../../../../src/system/device/device-facts.ts';

test('DMI provides the serial numbers of system, board and chassis', async () => {
  const serialNumbers = await dmiSerialNumbers();
  expect(serialNumbers).toHaveLength(3);
  for (const serialNumber of serialNumbers) expect(typeof serialNumber).toBe('string');
});
