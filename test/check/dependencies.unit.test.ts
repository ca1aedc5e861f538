import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { beforeEach, expect, test } from 'vitest';

import { folderUntilTestEnds } from '../until-test-ends.ts';
import { Dependencies } from './dependencies.ts';

let root = '';

beforeEach(() => {
  root = folderUntilTestEnds();
  write('a.unit.test.ts', "import { b } from './b.ts';");
  write('b.ts', "import { a } from './a.unit.test.ts'; const thread = new URL('./c-worker.ts', import.meta.url);");
  write('c-worker.ts', "const data = join(import.meta.dirname, 'data.json');");
  write('data.json', '{}');
  write('other.ts', '');
});

function write(path: string, text: string): void {
  writeFileSync(join(root, path), text);
}

function keyNow(): string {
  const paths = ['a.unit.test.ts', 'b.ts', 'c-worker.ts', 'data.json', 'other.ts'];
  return new Dependencies(root, paths).keyOf('a.unit.test.ts');
}

test.each(['a.unit.test.ts', 'b.ts', 'c-worker.ts', 'data.json'])('changes the key of a test with %s', (path) => {
  const before = keyNow();
  write(path, 'changed');
  expect(keyNow()).not.toBe(before);
});

test('keeps the key of a test that cannot reach a changed file', () => {
  const before = keyNow();
  write('other.ts', 'changed');
  expect(keyNow()).toBe(before);
});
