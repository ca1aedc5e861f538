import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { findMembers, maxValueBytes } from '../../../../src/service/messaging/json-members.ts';
import { anyPlaces, payloadOf } from '../../mqtt/blocks.ts';

const space = fc.stringMatching(/^[ \t\r\n]{0,3}$/);
const members = fc.uniqueArray(fc.tuple(fc.string({ maxLength: 8 }), fc.jsonValue({ maxDepth: 4 })), {
  maxLength: 6,
  selector: ([name]) => name,
});

/** Some of the characters as escapes, which mean the same. */
function withEscapes(json: string, mask: readonly boolean[]): string {
  let index = 0;
  return json.replaceAll(/(?<=")[a-z](?=[a-z]*")/g, (letter) => {
    index += 1;
    return mask[index % mask.length] === true ? `\\u00${letter.charCodeAt(0).toString(16)}` : letter;
  });
}

function namesAndValues(text: string | Buffer, places: readonly number[]): unknown {
  const payload = payloadOf(text, places);
  const found = findMembers(payload);
  const values = found.members.map(({ name, start, end }) => {
    return [name, JSON.parse(payload.join(start, end).toString('utf8'))] as const;
  });
  return { values, problem: found.problem };
}

describe('findMembers', () => {
  test('finds the members of any object, however it is spaced, escaped and cut', () => {
    const mask = fc.array(fc.boolean(), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(members, space, anyPlaces, mask, (pairs, gap, places, escaped) => {
        const inner = pairs.map(([name, value]) => {
          return [JSON.stringify(name), ':', JSON.stringify(value)].join(gap);
        });
        const text = withEscapes([`${gap}{`, inner.join(`${gap},${gap}`), `}${gap}`].join(gap), escaped);
        const expected = JSON.parse(JSON.stringify(pairs)) as unknown;
        expect(namesAndValues(text, places)).toEqual({ values: expected, problem: undefined });
      }),
    );
  });

  test('agrees with JSON.parse on what is an object, if its values are JSON', () => {
    const anything = fc.oneof(
      fc.json({ maxDepth: 3 }),
      fc.stringMatching(/^\{("[ab]":("x\\\\?"|[12]|\{\}|\[\]),?){0,3}\}?$/),
      fc.stringMatching(/^[{}[\],:"\\ 1a]{0,12}$/),
    );
    fc.assert(
      fc.property(anything, anyPlaces, (text, places) => {
        const payload = payloadOf(text, places);
        const { members: found, problem } = findMembers(payload);
        const parts = found.map(({ start, end }) => payload.join(start, end).toString('utf8'));
        expect(problem === undefined && parts.every((part) => isJson(part))).toBe(isObject(text));
      }),
      { numRuns: 500 },
    );
  });

  test.each([
    ['', 'it ends too early'],
    ['[1]', 'it does not begin with "{"'],
    ['{"a":1', 'it ends too early'],
    ['{"a":"x', 'it ends within a string'],
    ['{"a":"x\\', 'it ends within a string'],
    ['{"a":1}}', 'something stands behind its end'],
    ['{"a":1,}', 'a member has no name'],
    ['{"a" 1}', 'a name is not followed by ":"'],
    ['{"a":1 "b":2}', 'its members are not separated by ","'],
    ['{"\\x":1}', 'a name cannot be read'],
    [Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), 'a name cannot be read'],
    [`{"${'n'.repeat(300)}":1}`, 'a name is too long'],
    [`{"a":${'['.repeat(100_000)}`, 'it is nested deeper than 64'],
    [`{"a":[${'1,'.repeat(maxValueBytes)}1]}`, `a member is longer than ${maxValueBytes} bytes`],
    [`{"a":${'1'.repeat(2000)}}`, 'a number is longer than 1024 characters'],
    [`{${'"a":1,'.repeat(100)}"b":2}`, 'it has more than 32 members'],
  ])('says what is wrong: %#', (text, problem) => {
    expect(findMembers(payloadOf(text, [3])).problem).toBe(problem);
  });

  test('gives the members that stand before what is broken', () => {
    const { members: found } = findMembers(payloadOf('{"id":"x","result":{"id":'));
    expect(found.map(({ name }) => name)).toEqual(['id']);
  });

  test('ignores a byte order mark, and only there', () => {
    expect(findMembers(payloadOf('\uFEFF{"a":1}', [1, 2])).problem).toBeUndefined();
    expect(findMembers(payloadOf('{\uFEFF"a":1}')).problem).toBe('a member has no name');
  });
});

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch (error) {
    if (error instanceof SyntaxError) return false;
    throw error;
  }
}

function isObject(text: string): boolean {
  return isJson(text) && text.trimStart().startsWith('{');
}
