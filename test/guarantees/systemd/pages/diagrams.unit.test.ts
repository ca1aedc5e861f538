import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { describe, expect, test } from 'vitest';

import { diagrams, imagesPath, importsOfModules, stateNames } from '../../../../systemd/pages/diagrams.ts';
import { rowsOf } from './page-tables.ts';

const pictures = diagrams();
const readme = readFileSync(join(import.meta.dirname, '../../../../src/README.md'), 'utf8');

describe('the diagrams of docs/images', () => {
  test.each(Object.keys(pictures))('%s is current (npm run diagrams writes it)', (name) => {
    expect(readFileSync(join(imagesPath, name), 'utf8')).toBe(pictures[name]);
  });

  test('show each state of an update', () => {
    expect(stateNames()).toContain('rolling-back');
    for (const name of stateNames()) expect(pictures['update-states.svg']).toContain(`>${name}</text>`);
  });

  test('show each module of src', () => {
    for (const name of importsOfModules().keys()) expect(pictures['modules.svg']).toContain(`>${name}</text>`);
  });

  test('show the modules that src/README.md lists', () => {
    const listed = rowsOf(readme, '| module | responsibility | may import |').map(([cell = '']) => cell);
    const modules = [...importsOfModules().keys()].filter((name) => name !== 'main').toSorted();
    expect(
      listed
        .filter((cell) => cell.endsWith('/'))
        .map((cell) => cell.slice(0, -1))
        .toSorted(),
    ).toEqual(modules);
  });
});
