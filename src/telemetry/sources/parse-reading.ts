import { isNest, maxValueDepth, nestedWithin, parseExactly } from '../../system/json-value.ts';
import { TelemetryError } from '../errors.ts';
import { sampleOf } from '../reading-text.ts';
import type { Reading } from './source.ts';

/**
 * Parses a text as JSON, else as a number if it begins with one; else the reading is the text itself. Undefined: it is
 * empty. Throws `value-invalid`, also for a text with bytes that were not UTF-8.
 */
export function parseReading(text: string): Reading {
  const trimmed = text.trim();
  if (trimmed === '') return undefined;
  try {
    return shallow(parseExactly(trimmed));
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  const number = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?=$|\s)/.exec(trimmed);
  if (number === null || grouped.test(trimmed)) return intact(trimmed);
  return /^[+-]?\d+$/.test(number[0]) ? parseExactly(String(BigInt(number[0]))) : Number(number[0]);
}

/** `1 234.5`: one number in groups of three digits, or two numbers. It must not become 1. */
const grouped = /^[+-]?\d{1,3}(?:[ \u00A0\u202F]\d{3})+(?:[.,]\d+)?$/;

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
