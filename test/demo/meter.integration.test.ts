import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, test, vi } from 'vitest';

import { Meter } from './meter.ts';

/** Makes the loader find an invalid library, even after an earlier compilation. */
test('runs without a meter if simavr is unavailable, and prints the reason in one line', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'no-simavr-'));
  writeFileSync(join(folder, 'libsimavr.so.2'), '');
  vi.stubEnv('LD_LIBRARY_PATH', folder);
  const reasons: string[] = [];
  try {
    expect(await Meter.plugIn((why) => reasons.push(why))).toBeUndefined();
  } finally {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  }
  expect(reasons).toEqual([expect.stringMatching(/^[^\n]*simboot[^\n]*$/)]);
});
