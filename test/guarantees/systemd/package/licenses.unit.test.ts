import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { copyrightText } from '../../../../systemd/make/licenses.ts';

let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'licenses-'));
});

afterAll(async () => {
  await rm(directory, { recursive: true });
});

test.each(['LICENSE', 'license.md', 'LICENCE.txt', 'COPYING', 'copyright'])('takes the text from %s', async (name) => {
  await writeFile(join(directory, name), `the text of ${name}`);
  const text = await copyrightText([{ title: 'one 1.0', directories: ['/nowhere', directory] }]);
  expect(text).toContain(`\none 1.0\n`);
  expect(text).toContain(`the text of ${name}`);
  await rm(join(directory, name));
});

test('names each part without a text', async () => {
  await writeFile(join(directory, 'README.md'), 'This is under the MIT license.');
  const parts = ['one 1.0', 'two 2.0'].map((title) => ({ title, directories: [directory] }));
  await expect(copyrightText(parts)).rejects.toThrow(
    `no license text of one 1.0 (in ${directory}), two 2.0 (in ${directory}): expected a file LICENSE`,
  );
});
