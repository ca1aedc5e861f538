import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { examineCompiledCode } from '../../../../src/daemon/doctor/compiled-code.ts';
import { folderUntilTestEnds } from '../../../until-test-ends.ts';

const { signal } = new AbortController();

test.each([
  ['LVM-0123', { CODE_CACHE: '/var/cache/thing-agent' }, undefined],
  ['CRYPT-VERITY-0123-root', { CODE_CACHE: '' }, 'none is reused, since this gateway has verified boot'],
  [
    'CRYPT-VERITY-0123-root',
    { CODE_CACHE: '/var/cache/thing-agent' },
    'verified boot, but the compiled code in /var/cache/thing-agent is not verified',
  ],
])('with the mapped device %s and %j, agent doctor shows %j', async (uuid, env, expected) => {
  const folder = folderUntilTestEnds();
  await mkdir(join(folder, 'dm-0/dm'), { recursive: true });
  await writeFile(join(folder, 'dm-0/dm/uuid'), `${uuid}\n`);
  const found = await examineCompiledCode(signal, join(folder, 'dm-*/dm/uuid'), env);
  expect(typeof found === 'object' ? found.detail : found).toBe(expected);
});
