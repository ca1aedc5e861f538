import process from 'node:process';

/** Set by `npm run prove`. */
export const isFull = process.env['TEST_FULL'] === '1';

/** Set by `npm run check`, which developers run between two changes. */
const isQuick = process.env['TEST_QUICK'] === '1';

/**
 * Size of a large test: all of it in `npm run prove`, a part, always the same, in `npm test`, and the quick part of
 * that in `npm run check`.
 */
export function howMuch<T>(inFull: T, inPart: T, inCheck: T = inPart): T {
  if (isFull) return inFull;
  return isQuick ? inCheck : inPart;
}
