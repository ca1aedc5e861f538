import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { compiledKernel } from '../../../../src/firmware/text/text-kernel.ts';

test('the compiled kernel is what wat2wasm makes of its source', () => {
  const folder = mkdtempSync(join(tmpdir(), 'kernel-'));
  try {
    const output = join(folder, 'text-kernel.wasm');
    execFileSync('wat2wasm', ['src/firmware/text/text-kernel.wat', '--output', output]);
    expect(compiledKernel().equals(readFileSync(output))).toBe(true);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
