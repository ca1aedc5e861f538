import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import process from 'node:process';

import { expect, test } from 'vitest';

import { howMuch } from './full.ts';

const tools: readonly (readonly [script: string, option: string])[] = [
  ['prove.ts', '--only=nothing'],
  ['sweep/sweep.ts', '--bogus'],
  ['sweep/sweep.ts', '--cases=none'],
  ['soak/main.ts', '--weeks=-1'],
  ['fuzz/main.ts', '--target=nothing'],
  ['kills/main.ts', '--kills=1.5'],
  ['bench/main.ts', '--only=nothing'],
  ['arm64/main.ts', '--deb=nothing'],
];

test.each(howMuch(tools, tools.slice(0, 3)))('%s %s: one line says what is wrong', (script, option) => {
  const args = [join(import.meta.dirname, 'campaigns', script), option];
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 60_000 });
  expect(stderr).toMatch(/^.*--|^there is no target/);
  expect(stderr.split('\n').slice(1)).toEqual(['(--help explains the options)', '']);
  expect(status).toBe(64);
});
