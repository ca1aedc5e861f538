import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import process from 'node:process';

import { runTool } from '../tool.ts';

const help = `node test/campaigns/full-tests.ts [--only FOLDER]

All tests, or those of a folder, in full: the long ones, and of the others all rows (howMuch in test/full.ts). Hours.`;

await runTool(help, { only: { type: 'string' } }, async ({ only }) => {
  const project = join(import.meta.dirname, '../..');
  const vitest = join(project, 'node_modules/vitest/vitest.mjs');
  const env = { ...process.env, TEST_FULL: '1' };
  const child = spawn(process.execPath, [vitest, 'run', ...(only === undefined ? [] : [only])], {
    cwd: project,
    env,
    stdio: 'inherit',
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return code ?? 1;
});
