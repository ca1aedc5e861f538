import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

import { describe, expect, test } from 'vitest';

import { agentVersion } from '../src/version.ts';

const root = join(import.meta.dirname, '..');
const sources = globSync('src/**/*.ts', { cwd: root }).map((path) => ({
  path,
  text: readFileSync(join(root, path), 'utf8'),
}));
const codeMap = readFileSync(join(root, 'src/README.md'), 'utf8');

test('the program and its package have one version', () => {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { readonly version: string };
  expect(agentVersion).toBe(version);
});

describe('a third-party package', () => {
  /** The exceptions of src/README.md, Decisions. */
  const everywhere = new Set(['zod', 'mqtt']);

  test('is named in one file or one folder', () => {
    const users = new Map<string, Set<string>>();
    for (const { path, text } of sources) {
      for (const [, name = ''] of text.matchAll(/(?:from|import\()\s*'([^.'][^']*)'/g)) {
        if (name.startsWith('node:') || everywhere.has(name)) continue;
        users.set(name, (users.get(name) ?? new Set()).add(dirname(path)));
      }
    }
    const scattered = [...users].filter(([, folders]) => folders.size > 1).map(([name]) => name);
    expect(scattered).toEqual([]);
  });
});

describe('an error code', () => {
  const literal = /'([a-z]+(?:-[a-z0-9]+)+)'/g;
  const codesIn = (text: string): readonly string[] => [...text.matchAll(literal)].map(([, code = '']) => code);
  const codes = new Set<string>();
  for (const { text } of sources) {
    for (const [, code = ''] of text.matchAll(/\bcode: '([a-z]+(?:-[a-z0-9]+)+)'/g)) codes.add(code);
    for (const [, call = ''] of text.matchAll(/new \w+(?:Error|Refusal)\(\s*('[a-z-]+')/g))
      codesIn(call).forEach((code) => codes.add(code));
    const tables = [...text.matchAll(/(?:const (?:meanings|known|kinds|natures)\b|type \w*Code =)[^;]*;/g)];
    for (const [table] of tables) codesIn(table).forEach((code) => codes.add(code));
  }
  for (const notACode of ['give-up', 'update-now']) codes.delete(notACode);

  test('is explained in src/README.md', () => {
    expect([...codes].filter((code) => !codeMap.includes(`\`${code}\``)).sort()).toEqual([]);
  });
});

test('no wait for a board or a source rests on AbortSignal.timeout, whose timer lets the process end', () => {
  const rooms = sources.filter(({ path }) => /^src\/(?:mcu|telemetry)\//.test(path));
  const weak = rooms.filter(({ text }) => text.includes('AbortSignal.timeout')).map(({ path }) => path);
  expect(rooms.length).toBeGreaterThan(0);
  expect(weak).toEqual([]);
});

test('no source names a path of a developer', () => {
  const strays = sources
    .filter(({ text }) => text.includes(`${dirname(root)}/`))
    .map(({ path }) => relative(root, path));
  expect(strays).toEqual([]);
});
