import { isNest, maxValueDepth, nestedWithin, parseExactly } from '../../system/json-value.ts';
import { TelemetryError } from '../errors.ts';
import { sampleOf } from '../reading-text.ts';
import type { Reading } from './source.ts';

/**
 * Parses a text as JSON, else as a number that one unit may follow; else the reading is the text itself. Returns
 * nothing for an empty text, and NaN for `nan` and `inf`. Throws `value-invalid`, also for bytes that were not UTF-8.
 */
export function parseReading(text: string): Reading {
  const trimmed = text.trim();
  if (trimmed === '') return undefined;
  try {
    return shallow(parseExactly(trimmed));
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  if (/^[+-]?(?:nan|inf|infinity)$/i.test(trimmed)) return Number.NaN;
  const number = measured.exec(trimmed)?.[1];
  if (number === undefined) return intact(trimmed);
  return /^[+-]?\d+$/.test(number) ? parseExactly(String(BigInt(number))) : Number(number);
}

/** A number, alone or before one unit such as `°C`, `m3/h` or `m/s2`. `1 234.5` and `3 of 5` must not become 1 and 3. */
const measured =
  /^([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?:\s+(?![.,;+-])(?:[A-Za-z][23](?!\d)|[^\s\d:=])+)?$/;

function shallow(reading: Reading): Reading {
  if (nestedWithin(reading)) return reading;
  throw new TelemetryError('value-invalid', `a reading is nested deeper than ${maxValueDepth} levels`);
}

/** Bytes that are not UTF-8 were decoded to U+FFFD: a damaged number must not be sent as a text. */
function intact(text: string): string {
  if (!text.includes('\uFFFD')) return text;
  throw new TelemetryError('value-invalid', `not UTF-8: ${sampleOf(text)}`);
}

/** Parses `a=1 b=2.5 c=on`, separated by blanks, commas or semicolons. Returns undefined for another form. */
export function parsePairs(line: string): Readonly<Record<string, unknown>> | undefined {
  const parts = line.trim().split(/[\s,;]+/);
  const pairs = parts.map((part) => /^([A-Za-z_][\w.-]*)[=:](.+)$/.exec(part));
  if (!pairs.every((pair) => pair !== null)) return undefined;
  return Object.fromEntries(pairs.map(([, name = '', value = '']) => [name, parseReading(value)]));
}

/**
 * The part of a reading at a JSON pointer (RFC 6901), or undefined if there is none. An empty pointer means the
 * whole reading.
 */
export function atPointer(reading: Reading, pointer: string): unknown {
  let value = reading;
  for (const token of pointer.split('/').slice(1)) {
    if (!isNest(value)) return undefined;
    const name = token.replaceAll('~1', '/').replaceAll('~0', '~');
    value = Object.getOwnPropertyDescriptor(value, name)?.value;
  }
  return value;
}
