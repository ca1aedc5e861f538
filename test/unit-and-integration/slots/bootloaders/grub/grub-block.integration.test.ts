import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';

import { changedSectors, parseBlock, withVariables } from '../../../../../src/slots/bootloaders/grub/grub-block.ts';
import { howMuch } from '../../../../full.ts';

const directory = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'grub-block-'));
const file = join(directory, 'grubenv');

afterAll(() => {
  rmSync(directory, { recursive: true });
});

const name = fc.constantFrom('ORDER', 'A_OK', 'A_TRY', 'B_TRY', 'saved_entry', 'x');
/** Text on a line of its own in the tool's list. */
const value = fc.string({ unit: fc.constantFrom('A', ' ', '1', '#', '=', '\\', '"', '$'), maxLength: 12 });
const variables = fc.uniqueArray(fc.tuple(name, value), { selector: ([key]) => key, minLength: 1 });

function editenv(...args: readonly string[]): string {
  return execFileSync('grub-editenv', [file, ...args], { encoding: 'latin1' });
}

function set(pairs: readonly (readonly [string, string])[]): Buffer {
  editenv('set', ...pairs.map(([key, text]) => `${key}=${text}`));
  return readFileSync(file);
}

function list(block: Buffer): readonly string[] {
  writeFileSync(file, block);
  return editenv('list')
    .split('\n')
    .filter((line) => line !== '')
    .sort();
}

describe('an environment block', () => {
  test('of GRUB’s own tool is read as that tool lists it', () => {
    fc.assert(
      fc.property(variables, (pairs) => {
        editenv('create');
        const block = set(pairs);
        const read = [...(parseBlock(block) ?? [])].map(([key, text]) => `${key}=${text}`);
        expect(read.sort()).toEqual(list(block));
      }),
      { numRuns: howMuch(60, 20) },
    );
  });

  test('is for GRUB’s own tool what it would have made itself', () => {
    fc.assert(
      fc.property(variables, variables, (before, change) => {
        editenv('create');
        const block = set(before);
        const ours = withVariables(block, new Map(change));
        expect(ours?.toString('latin1')).toBe(set(change).toString('latin1'));
      }),
      { numRuns: howMuch(60, 20) },
    );
  });

  test('keeps multi-line values, comments, and foreign lines', () => {
    const text = '# GRUB Environment Block\n# mine\nlong=one\\\ntwo\nnonsense\nORDER=A\nORDER=B\n'.padEnd(1024, '#');
    const after = withVariables(
      Buffer.from(text),
      new Map([
        ['ORDER', 'B A'],
        ['new', '1'],
      ]),
    );
    expect(after?.toString()).toBe(
      '# GRUB Environment Block\n# mine\nlong=one\\\ntwo\nnonsense\nORDER=B A\nnew=1\n'.padEnd(1024, '#'),
    );
    expect(parseBlock(Buffer.from(text))).toEqual(
      new Map([
        ['long', 'one\ntwo'],
        ['ORDER', 'B'],
      ]),
    );
  });

  test.each([
    ['has no heading', 'ORDER=A\n'.padEnd(1024, '#')],
    ['is too short', '# GRUB Environment Block\n'.padEnd(1023, '#')],
    ['ends in something else', '# GRUB Environment Block\nORDER=A\n'.padEnd(1023, '#') + '\0'],
    ['is empty', '\0'.repeat(1024)],
  ])('that %s is invalid', (_, text) => {
    expect(parseBlock(Buffer.from(text))).toBeUndefined();
    expect(withVariables(Buffer.from(text), new Map())).toBeUndefined();
  });

  test('is read from any bytes, or invalid: never guessed, never an error', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 999, maxLength: 999 }), (bytes) => {
        const block = Buffer.concat([Buffer.from('# GRUB Environment Block\n'), bytes]);
        const after = withVariables(block, new Map());
        expect(after === undefined ? parseBlock(block) : parseBlock(after)).toEqual(parseBlock(block));
      }),
    );
  });

  test('that has no room stays as it is', () => {
    const block = Buffer.from('# GRUB Environment Block\n'.padEnd(1024, '#'));
    expect(withVariables(block, new Map([['x', 'y'.repeat(996)]]))).toHaveLength(1024);
    expect(withVariables(block, new Map([['x', 'y'.repeat(997)]]))).toBeUndefined();
  });

  test('tells in which sectors it differs from another', () => {
    const block = Buffer.from('# GRUB Environment Block\n'.padEnd(1024, '#'));
    const long = withVariables(block, new Map([['x', 'y'.repeat(700)]])) ?? block;
    expect([changedSectors(block, block), changedSectors(block, long)]).toEqual([[], [0, 1]]);
  });
});
