import process from 'node:process';

/** Set by `npm run prove`. */
export const isFull = process.env['TEST_FULL'] === '1';

/** How much of a large test is played: all of it by `npm run prove`, a part, always the same, by `npm test`. */
export function howMuch<T>(inFull: T, inPart: T): T {
  return isFull ? inFull : inPart;
}
