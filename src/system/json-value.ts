import { undefinedIfThrows, isSyntaxError } from './errors.ts';

/**
 * The depth to which a value from outside may be nested. JSON.parse takes any depth, but JSON.stringify fails at some
 * thousands.
 */
export const maxValueDepth = 32;

/** A value as JSON, which is sent as it is: neither parsed nor serialized again. */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A number that a double would change, as it was written. JSON.stringify writes the same text. */
export interface ExactNumber {
  readonly rawJSON: string;
}

declare global {
  /** In V8, and not yet in TypeScript (https://github.com/tc39/proposal-json-parse-with-source). */
  interface JSON {
    rawJSON(text: string): ExactNumber;
    isRawJSON(value: unknown): value is ExactNumber;
    parse(
      text: string,
      reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
    ): unknown;
  }
}

/** Returns the value of a text in JSON, or undefined if the text is not JSON. */
export function parsedJson(text: string): unknown {
  return undefinedIfThrows<unknown>(isSyntaxError, () => JSON.parse(text));
}

/** Returns the value of JSON in UTF-8, or undefined if the bytes are anything else. */
export function parsedJsonBytes(bytes: Uint8Array): unknown {
  const isOther = (error: unknown): boolean =>
    error instanceof SyntaxError || error instanceof TypeError || error instanceof RangeError;
  return undefinedIfThrows<unknown>(isOther, () => JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)));
}

/**
 * Parses JSON. Returns undefined if the text is not JSON. A number that a double changes, such as 9007199254740993 or 1e400, becomes an ExactNumber. Fractions do
 * not: they are measured values, of which a double keeps enough digits.
 */
export function parseExactly(text: string): unknown {
  const parsed = parsedJson(text);
  // the reviver is slow, and recurses
  if (parsed === undefined || !/\d{16}|\d[eE]/.test(text) || !nestedWithin(parsed)) return parsed;
  return JSON.parse(text, (_, value, { source }) =>
    typeof value !== 'number' || source === undefined || isExact(value, source) ? value : JSON.rawJSON(source),
  );
}

function isExact(number: number, source: string): boolean {
  if (!Number.isInteger(number)) return Number.isFinite(number);
  return Number.isSafeInteger(number) || String(number) === source;
}

/** Returns the value as a double, for arithmetic, or NaN if it is not a number. */
export function doubleOf(value: unknown): number {
  if (typeof value === 'number') return value;
  return JSON.isRawJSON(value) ? Number(value.rawJSON) : Number.NaN;
}

/** Returns a fraction with 15 digits, all that a double keeps: 13 × 0.001 is 0.013, and not 0.013000000000000001. */
export function withoutNoise(number: number): number {
  return Number.isInteger(number) ? number : Number(number.toPrecision(15));
}

/** True if arrays and objects are nested at most `maxDepth` deep. Does not recurse. */
export function nestedWithin(value: unknown, maxDepth: number = maxValueDepth): boolean {
  let level = [value].filter(isNest);
  for (let depth = 0; depth < maxDepth; depth += 1) {
    level = level.flatMap((nest): unknown[] => Object.values(nest)).filter(isNest);
  }
  return level.length === 0;
}

/** True if the value is an array or an object. */
export function isNest(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !JSON.isRawJSON(value);
}
