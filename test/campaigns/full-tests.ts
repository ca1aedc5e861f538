import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import process from 'node:process';

import { runTool } from '../tool.ts';

/** The tests of which `npm test` plays a part (full.ts). */
const files = [
  'test/rooms/mcu/protocols/fault-matrix.unit.test.ts',
  'test/rooms/firmware/artifact/mender-artifact.integration.test.ts',
  'test/stand-ins/machine/large-images.integration.test.ts',
];

const help = 'node test/campaigns/full-tests.ts\n\nThe tests of which npm test plays a part, in full: some minutes.';

await runTool(help, {}, async () => {
  const project = join(import.meta.dirname, '../..');
  const vitest = join(project, 'node_modules/vitest/vitest.mjs');
  const env = { ...process.env, TEST_FULL: '1' };
  const child = spawn(process.execPath, [vitest, 'run', ...files], { cwd: project, env, stdio: 'inherit' });
  const [code] = (await once(child, 'close')) as [number | null];
  return code ?? 1;
});
