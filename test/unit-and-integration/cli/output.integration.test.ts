import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { open } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, test } from 'vitest';

const launcher = join(import.meta.dirname, '../../../agent');

test('a full disk is reported as a failure of the output', async () => {
  await using full = await open('/dev/full', 'w');
  const child = spawn(launcher, ['config', 'schema'], { stdio: ['ignore', full.fd, 'pipe'] });
  const said = child.stderr?.setEncoding('utf8').toArray();
  expect(await once(child, 'close')).toEqual([74, null]);
  expect((await said)?.join('')).toMatch(/^agent: the output was lost: .*no space left/);
});

test('a reader that goes away is not missed', async () => {
  const child = spawn(launcher, ['config', 'schema'], { stdio: ['ignore', 'pipe', 'pipe'] });
  child.stdout.destroy();
  const said = child.stderr.setEncoding('utf8').toArray();
  expect(await once(child, 'close')).toEqual([0, null]);
  expect((await said).join('')).toBe('');
});
