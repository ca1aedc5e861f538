import { readdir, readFile } from 'node:fs/promises';
import { dirname, join, normalize, resolve } from 'node:path';

import { expect, test } from 'vitest';

import { sheaves } from '../../../../systemd/make/bundle.ts';

const source = resolve(import.meta.dirname, '../../../../src');

// A package without an entry is not a separate part: each start would read one more file, unnoticed.
test('what the files of the program are bound of is loaded by an import() of its own', async () => {
  const loaded = new Set(['main.ts']);
  for (const path of await readdir(source, { recursive: true })) {
    if (!path.endsWith('.ts')) continue;
    const text = await readFile(join(source, path), 'utf8');
    for (const [, named = ''] of text.matchAll(/\bimport\('(\.[^']+)'\)/g))
      loaded.add(normalize(join(dirname(path), named)));
  }
  expect(sheaves.flatMap(({ roots }) => roots).filter((root) => !loaded.has(root))).toEqual([]);
});
