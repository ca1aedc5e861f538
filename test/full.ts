import process from 'node:process';

/** Set by `npm run prove`. */
export const isFull = process.env['TEST_FULL'] === '1';

/** Set by `npm run check`, which somebody waits for between two changes. */
const isQuick = process.env['TEST_QUICK'] === '1';

/**
 * How much of a large test is played: all of it by `npm run prove`, a part, always the same, by `npm test`, and of that
 * by `npm run check` what is quick.
 */
export function howMuch<T>(inFull: T, inPart: T, inCheck: T = inPart): T {
  if (isFull) return inFull;
  return isQuick ? inCheck : inPart;
}
