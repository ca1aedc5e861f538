import { undefinedIfThrows } from '../../system/errors.ts';
import { isNest, maxValueDepth, nestedWithin, parseExactly } from '../../system/json-value.ts';
import { TelemetryError } from '../errors.ts';
import { sampleOf } from '../reading-text.ts';
import type { Reading } from './source.ts';

/** The first unit of each series of one source, by name: its later readings must have the same. */
export type SeriesUnits = Map<string, string>;

/**
 * Parses a text as JSON, else as a number that one unit may follow; else the reading is the text itself. Returns
 * nothing for an empty text, and NaN for `nan` and `inf`. Throws `value-invalid`: also for an unknown unit, for another
 * one than before in the series, and for bytes that were not UTF-8.
 */
export function parseReading(text: string, units: SeriesUnits = new Map(), series = ''): Reading {
  const trimmed = text.trim();
  if (trimmed === '') return undefined;
  if (/^[+-]?(?:nan|inf|infinity)$/i.test(trimmed)) return Number.NaN;
  const parsed = parseExactly(trimmed);
  const value = parsed === undefined && /^[[{]/.test(trimmed) ? parseExactly(withNulls(trimmed)) : parsed;
  if (value !== undefined) return shallow(value);
  const [, number, unit] = measured.exec(trimmed) ?? [];
  if (number === undefined) return intact(trimmed);
  if (unit !== undefined) requireUnit(unit, trimmed, units, series);
  return /^[+-]?\d+$/.test(number) ? parseExactly(String(BigInt(number))) : Number(number);
}

/** Replaces the NaN and Infinity of Python's `json.dumps`, and the nan and inf of C, in a text that is almost JSON. */
function withNulls(text: string): string {
  const stringOrNoNumber = /"(?:[^"\\]|\\.)*"?|[+-]?\b(?:nan|inf|infinity)\b/gis;
  return text.replaceAll(stringOrNoNumber, (match) => (match.startsWith('"') ? match : 'null'));
}

/** Returns the number that `parseReading` finds in a text, or undefined. */
export function numberIn(...given: Parameters<typeof parseReading>): Reading {
  const reading = undefinedIfThrows<Reading>(
    (error) => error instanceof TelemetryError,
    () => parseReading(...given),
  );
  return typeof reading === 'number' || JSON.isRawJSON(reading) ? reading : undefined;
}

/** A number, alone or before one unit such as `°C`, `m3/h` or `m/s2`. `1 234.5` and `3 of 5` must not become 1 and 3. */
const measured =
  /^([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?:\s+(?![.,;+-])((?:[A-Za-z][23](?!\d)|[^\s\d:=])+))?$/;

/** Throws unless the unit is known and the first one of its series: `950 mV` and `1.02 V` must not become 950 and 1.02. */
function requireUnit(unit: string, text: string, units: SeriesUnits, series: string): void {
  if (!isKnown(unit)) throw new TelemetryError('value-invalid', `no known unit follows: ${sampleOf(text)}`);
  const first = units.get(series) ?? unit;
  units.set(series, first);
  if (unit !== first) throw new TelemetryError('value-invalid', `the unit was ${first} before: ${sampleOf(text)}`);
}

/** Symbols that take prefixes: of the SI Brochure (9th edition, tables 2, 4 and 8), of electric power and of data. */
const prefixed =
  '[nuµ\u03BCmcdhkMGT]?(?:mol|cd|lm|lx|Hz|Pa|bar|eV|Bq|Sv|Gy|ohm|[mgsAKNJWVFCΩ\u2126STHlLB]|[WA]h|VAh?|varh?|Nm|bit|bps)';
/** Symbols without prefix, as in UCUM and as devices print them. U+FFFD: the ° of Latin-1. */
const plain =
  'min|h|d|t|rad|deg|%(?:[rR]H)?|‰|pp[mb]|pH|[°º\uFFFD][CF]?|deg[CF]|℃|℉|rpm|RPM|psi|mmHg|inHg|dB[mA]?|[KMGT]i?B|[lL]ux|Ohm|mph|kn|NTU';
const factor = new RegExp(`^(?:${prefixed}|${plain})[23²³]?$`);

/** Tests one factor at a time: several spellings fit some factors, such as `GB`, and a pattern of all tries all of them. */
function isKnown(unit: string): boolean {
  return unit.split(/[/·*]/).every((part) => factor.test(part));
}

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
