import process from 'node:process';

/** Set by `npm run prove`. */
export const isFull = process.env['TEST_FULL'] === '1';

/** Size of a large test: all of it in `npm run prove`, and a part, always the same, in `npm test` and `npm run check`. */
export function howMuch<T>(inFull: T, inPart: T): T {
  return isFull ? inFull : inPart;
}
