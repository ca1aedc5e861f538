import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { copyrightText } from '../../../../systemd/make/licenses.ts';
import { RUNTIME_LICENSES } from '../../../../systemd/make/sbom.ts';

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

// Regression: the bill of materials called the runtime, with OpenSSL, ICU and V8 in it, MIT.
test('names the licenses of the libraries in the runtime', async () => {
  const text = await readFile(`node_modules/node-linux-${process.arch}/LICENSE`, 'utf8');
  const signs = {
    'Apache-2.0': 'Apache License',
    'BSD-2-Clause': 'BSD 2-Clause License',
    'BSD-3-Clause': '3. Neither the name of the copyright holder',
    'BlueOak-1.0.0': 'Blue Oak Model License',
    ISC: 'ISC License',
    MIT: 'Permission is hereby granted, free of charge',
    'Unicode-3.0': 'UNICODE LICENSE V3',
    Zlib: "This software is provided 'as-is', without any express or implied",
  };
  for (const sign of Object.values(signs)) expect(text).toContain(sign);
  expect(RUNTIME_LICENSES.split(' AND ').toSorted()).toEqual(Object.keys(signs).toSorted());
});
