import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { formatLine } from '../../../../src/system/log/log-text.ts';

const at = new Date(2026, 10, 21, 4, 5, 6);
const entry = {
  at,
  level: 'warn',
  message: 'slot is full',
  fields: { slot: 'B', why: 'no room', left: undefined },
} as const;

const characters = ['a', ' ', 'é', '=', '"', '\\', '\n', '\r', '\0', '\u001B', '\u0085', '\u009B', '\u2028', '\u2029'];

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

  test('is one line without control characters, whatever it is given', () => {
    const text = fc.string({ unit: fc.constantFrom(...characters), maxLength: 12 });
    fc.assert(
      fc.property(text, text, (message, value) => {
        expect(formatLine('journal', { ...entry, message, fields: { value } })).toMatch(/^<4>[^\p{Cc}\u2028\u2029]*$/u);
      }),
    );
  });
});
