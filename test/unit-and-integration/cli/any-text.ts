import fc from 'fast-check';

import { anyCharacter } from '../../any-character.ts';

/** Anything, and often what steers terminals. */
export const anyText = fc.string({
  unit: fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom('a', 'b', ' ', '-', 'ü', '漢', '😀') },
    {
      weight: 1,
      arbitrary: fc.constantFrom('\u001B', '\n', '\r', '\u009B', '\u202E', '\u2028', '\u200D', '\uD800', '\t'),
    },
    { weight: 1, arbitrary: fc.string({ unit: anyCharacter, minLength: 1, maxLength: 1 }) },
  ),
  maxLength: 200,
});

/** The characters of a text that must never reach a terminal; a line feed may end a line. */
export function steering(text: string): readonly string[] {
  return Array.from(text).filter((character) => character !== '\n' && isSteering(character.codePointAt(0) ?? 0));
}

const steeringRanges = [
  [0, 0x1f],
  [0x7f, 0x9f],
  [0x200b, 0x200f],
  [0x2028, 0x202e],
  [0x2066, 0x2069],
  [0xd800, 0xdfff],
] as const;

function isSteering(code: number): boolean {
  return steeringRanges.some(([first, last]) => code >= first && code <= last);
}
