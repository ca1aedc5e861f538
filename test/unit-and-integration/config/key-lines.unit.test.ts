import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { type KeyNode, lineOf, locateKeys } from '../../../src/config/file/key-lines.ts';
import { parseToml } from '../../../src/config/file/toml.ts';
import { howMuch } from '../../full.ts';
import { writtenToml } from './toml-writer.ts';

describe('locateKeys', () => {
  test('finds every key of any document on its line, however the document is written', () => {
    fc.assert(
      fc.property(writtenToml, ({ text, value, lines }) => {
        expect(parseToml(text), 'the writer writes what it means').toEqual(value);
        const keys = locateKeys(text);
        expect(lines.map(({ path }) => ({ path, line: lineOf(keys, path) }))).toEqual(lines);
      }),
      { numRuns: howMuch(1_000, 1_000, 200) },
    );
  });

  test('finds no key that is not there', () => {
    fc.assert(
      fc.property(writtenToml, ({ text, value }) => {
        expect(shape(locateKeys(text))).toEqual(shapeOf(value));
      }),
    );
  });

  test('names the nearest key above for a path that goes further than the text', () => {
    const keys = locateKeys('\n[service]\nurl = "x"\n');
    expect(lineOf(keys, ['service', 'deadlines', 'idle'])).toBe(2);
    expect(lineOf(keys, ['service', 'url', 'scheme'])).toBe(3);
    expect(lineOf(keys, ['device'])).toBeUndefined();
  });

  test('prefers the header of a table to a header below it', () => {
    const keys = locateKeys('[update.health]\nunits = []\n[update]\nfollow = "none"\n');
    expect(lineOf(keys, ['update'])).toBe(3);
    expect(lineOf(keys, ['update', 'health'])).toBe(1);
  });

  test('reads dates, numbers with signs and texts that end in quotes', () => {
    const text = ['a = 1979-05-27 07:32:00', 'b = [+1, -inf]', 'c = """x"""""', "d = '''y'''''", 'e = 1'].join('\n');
    const keys = locateKeys(text);
    expect([...keys.children].map(([key, { line }]) => [key, line])).toEqual([
      ['a', 1],
      ['b', 2],
      ['c', 3],
      ['d', 4],
      ['e', 5],
    ]);
  });

  test('is linear in the length of a line and of a text', () => {
    const line = `a = [${'1,'.repeat(200_000)}]\n`;
    const text = `b = """${'x\n'.repeat(200_000)}"""\nc = 1\n`;
    expect(lineOf(locateKeys(line + text), ['c'])).toBe(200_003);
  });
});

type Shape = ReadonlyMap<string, Shape>;

function shape(node: KeyNode): Shape {
  return new Map([...node.children].map(([key, child]) => [key, shape(child)] as const).sort(byKey));
}

function shapeOf(value: unknown): Shape {
  if (typeof value !== 'object' || value === null) return new Map();
  return new Map(
    Object.entries(value)
      .map(([key, child]) => [key, shapeOf(child)] as const)
      .sort(byKey),
  );
}

function byKey([a]: readonly [string, Shape], [b]: readonly [string, Shape]): number {
  return a < b ? -1 : 1;
}
