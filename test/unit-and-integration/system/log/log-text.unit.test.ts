import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { formatLine } from '../../../../src/system/log/pino-log.ts';

const at = new Date(2026, 10, 21, 4, 5, 6);
const entry = {
  at,
  level: 'warn',
  message: 'slot is full',
  fields: { slot: 'B', why: 'no room', left: undefined },
} as const;

const steering = [
  '\n',
  '\r',
  '\0',
  '\u001B',
  '\u0085',
  '\u009B',
  '\u2028',
  '\u202E',
  '\u2066',
  '\u200B',
  '\u00AD',
  '\uFE0F',
];
const characters = ['a', 'a=b', ' ', 'é', '=', '"', '\\', ...steering];

/** The fields of a line, as a reader of logfmt finds them: names and values outside of quoted text. */
function fieldsIn(line: string): readonly string[] {
  const words = line.match(/(?:[^\s"]|"(?:[^"\\]|\\.)*")+/g) ?? [];
  return words.filter((word) => /^[^"]*=/.test(word));
}

describe('formatLine', () => {
  test.each([
    ['journal', '<4>slot is full slot=B why="no room"'],
    ['terminal', '04:05:06 warn  slot is full slot=B why="no room"'],
    ['plain', `${at.toISOString()} warn  slot is full slot=B why="no room"`],
  ] as const)('writes for a reader of kind %s', (style, line) => {
    expect(formatLine(style, entry)).toBe(line);
  });

  test.each([
    ['debug', '<7>'],
    ['info', '<6>'],
    ['warn', '<4>'],
    ['error', '<3>'],
  ] as const)("gives the journal the priority of %s as syslog's %s", (level, priority) => {
    expect(formatLine('journal', { ...entry, level })).toMatch(new RegExp(`^${priority}slot`));
  });

  // Regression: bidirectional and invisible characters of a version's name reached the journal.
  test('is one line without steering or invisible characters, whatever it is given', () => {
    const text = fc.string({ unit: fc.constantFrom(...characters), maxLength: 12 });
    fc.assert(
      fc.property(text, text, (message, value) => {
        const line = formatLine('journal', { ...entry, message, fields: { value } });
        expect(steering.filter((character) => line.includes(character))).toEqual([]);
      }),
    );
  });

  // Regression: a version with the name "9.9 outcome=installed signedBy=abc" brought these fields into the line.
  test('has the given fields and no other, for any message', () => {
    const text = fc.string({ unit: fc.constantFrom(...characters), maxLength: 12 });
    fc.assert(
      fc.property(text, text, (message, value) => {
        const found = fieldsIn(formatLine('journal', { ...entry, message, fields: { value, code: 'x' } }));
        expect(found).toHaveLength(2);
        expect(found[0]).toMatch(/^value=/);
        expect(found[1]).toBe('code=x');
      }),
    );
  });
});
