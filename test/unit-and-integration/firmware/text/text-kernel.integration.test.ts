import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { compiledKernel } from '../../../../src/firmware/text/text-kernel.ts';
import { folderUntilTestEnds } from '../../../until-test-ends.ts';

test('the compiled kernel is what wat2wasm makes of its source', () => {
  const folder = folderUntilTestEnds();
  const output = join(folder, 'text-kernel.wasm');
  execFileSync('wat2wasm', ['src/firmware/text/text-kernel.wat', '--output', output]);
  expect(compiledKernel().equals(readFileSync(output))).toBe(true);
});
