import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { idleCodes, problems } from '../../../../src/control/gateway-state.ts';
import { readPage } from '../../../page-examples.ts';
import { codesInTables } from './page-tables.ts';
import { typedIn } from './typed-commands.ts';

const errors = await readFile(join(import.meta.dirname, '../../../../docs/error-codes.md'), 'utf8');
const known = new Set<string>([...codesInTables(errors), ...idleCodes, ...problems]);

test('the page about repairs names codes that there are, once', async () => {
  const page = await readPage('troubleshooting.md');
  const codes = codesInTables(page);
  expect(codes.length).toBeGreaterThan(40);
  expect(new Set(codes).size).toBe(codes.length);
  expect(codes.filter((code) => !known.has(code))).toEqual([]);
});

test('the page about the service names codes that there are', async () => {
  const named = [...(await readPage('service-protocol.md')).matchAll(/`([a-z]+(?:-[a-z]+)+)`/g)].map(
    ([, code = '']) => code,
  );
  expect(named.length).toBeGreaterThan(10);
  expect(named.filter((code) => !known.has(code))).toEqual([]);
});

test('what is explained on a page is a code', async () => {
  const pages = await Promise.all(['first-update.md', 'operations.md', 'troubleshooting.md'].map(readPage));
  const explained = pages.flatMap(typedIn).flatMap((line) => /^explain ([a-z].*)$/.exec(line)?.[1] ?? []);
  expect(explained.length).toBeGreaterThan(0);
  expect(explained.filter((code) => !known.has(code))).toEqual([]);
});
