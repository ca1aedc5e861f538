import { expect, test } from 'vitest';

import { playSlowLine } from './slow-line.ts';

const MIB = 1024 * 1024;
const bytesPerSecond = 50 * 1024;

test('a signed artifact arrives on a line that drops each minute, at a gateway that is switched off again and again', async () => {
  const line = { bytesPerSecond, upMs: 60_000, downMs: 15_000, offEveryMs: 150_000 };
  const report = await playSlowLine({ ...line, imageBytes: 16 * MIB, compression: 'none' });
  expect(report.digest).toBe(report.wantedDigest);
  expect(report.powerCuts).toBeGreaterThan(3);
  // A minute of the line for each power cut, and nothing where only the line was lost.
  expect(report.receivedAgainBytes).toBeLessThan(report.powerCuts * 65 * bytesPerSecond);
}, 300_000);
