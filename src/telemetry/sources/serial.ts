import type { LineSettings } from '../../serial/line.ts';
import { searchWithin } from '../../system/pattern.ts';
import { TelemetryError } from '../errors.ts';
import type { OpenSerialLine } from '../ports.ts';
import { sampleOf } from '../reading-text.ts';
import { LineSplitter } from './line-splitter.ts';
import { parsePairs, parseReading } from './parse-reading.ts';
import type { SeriesUnits } from './parse-reading.ts';
import { sourceFailed } from './source.ts';
import type { PushedSource, Reading } from './source.ts';

export interface SerialSettings extends LineSettings {
  readonly port: string;
  /**
   * The pattern whose named groups, or first group, are the reading. Omitted if a line is JSON, `key=value` pairs, or a
   * number.
   */
  readonly pattern: RegExp | undefined;
  /** A line that is silent for longer counts as failed, and is opened again. */
  readonly idleTimeoutMs: number;
}

const MAX_LINE_BYTES = 4_096;
const AGAIN_MS = 100;
const READ_MS = 1_000;
/**
 * After this silence a line begins. Longer than a character at 50 baud, shorter than a bootloader after a reset. Checked
 * with a pair of ptys at the pace of 9600 and 300 baud, on a busy machine: in 81 openings no part of a line was taken for
 * a whole one, and bytes of one line arrived at most 130 ms apart. Not checked with adapters, which collect bytes for 16
 * ms at most (FTDI, "latency timer").
 */
const QUIET_MS = 250;
/** The time for one line on the wall clock, on a machine that may be busy. */
const PATTERN_MS = 200;

/** A board that prints lines. Throws when it is unplugged or silent; the caller begins again. */
export function serialSource(settings: SerialSettings, openLine: OpenSerialLine): PushedSource {
  const { port, pattern, idleTimeoutMs } = settings;
  const units: SeriesUnits = new Map();
  return {
    kind: 'pushed',
    run: async (intake, signal) => {
      await using line = await openLine(port, settings, signal);
      const lines = new LineSplitter(MAX_LINE_BYTES, intake.drop);
      intake.connected();
      let silentMs = 0;
      let waitMs = QUIET_MS;
      while (!signal.aborted) {
        let bytes = await line.read(waitMs, signal);
        // a process that was stopped for a while notices the timeout before the bytes that wait in the port
        if (bytes.byteLength === 0 && lines.isInLine) bytes = await line.read(AGAIN_MS, signal);
        silentMs = bytes.byteLength === 0 ? silentMs + waitMs : 0;
        if (silentMs >= idleTimeoutMs)
          throw new TelemetryError('source-timeout', `${port}: no byte for ${idleTimeoutMs} ms`);
        if (waitMs === QUIET_MS && bytes.byteLength > 0) {
          lines.skipLine();
          intake.drop('malformed', `the beginning of a line that was in progress when ${port} was opened is missing`);
        }
        if (bytes.byteLength === 0) lines.pause();
        waitMs = READ_MS;
        for (const text of lines.push(bytes)) intake.take(() => parseLine(text, pattern, units), text);
        await intake.rest(bytes.byteLength);
      }
    },
  };
}

/**
 * Returns the reading in a line, or undefined if the line is blank or the pattern does not match. Throws
 * `value-invalid` if there is no pattern and the line is neither JSON, pairs nor a number, and `source-failed` if the
 * pattern takes too long.
 */
export function parseLine(text: string, pattern: RegExp | undefined, units: SeriesUnits = new Map()): Reading {
  if (pattern === undefined) return parsePairs(text) ?? requireData(parseReading(text, units));
  const found = searchWithin(new RegExp(pattern, 'd'), [text], PATTERN_MS);
  if (found === undefined) throw sourceFailed('pattern', `it needs more than ${PATTERN_MS} ms for a line`);
  const [match] = found;
  if (match?.indices === undefined) return undefined;
  const { groups, 0: entire, 1: first = entire } = match.indices;
  if (groups === undefined) return readingAt(first, text, units);
  return Object.fromEntries(Object.entries(groups).map(([name, place]) => [name, readingAt(place, text, units, name)]));
}

/**
 * Damage next to what a pattern picks: a byte before it that is not UTF-8; such a byte, or a control character, inside a
 * number. Other bytes that are not UTF-8 may be units (° and µ in Latin-1), and ASCII's control characters for text and
 * fields may separate numbers.
 */
const separators = String.fromCodePoint(0x02, 0x03, 0x04, 0x1c, 0x1d, 0x1e, 0x1f);
const control = String.raw`(?![\s${separators}])\p{Cc}`;
const damageBefore = new RegExp(String.raw`(?:\uFFFD|[\d.,]${control})$`, 'u');
const damageAfter = new RegExp(String.raw`^(?:[.,]\uFFFD|.\uFFFD[\d.,]|.${control}[\d.,])`, 'u');

/** Throws `value-invalid` if the part may be the rest of a damaged number: of `15\uFFFD.3`, a pattern picks 15. */
function readingAt(
  place: readonly [number, number] | undefined,
  text: string,
  ...known: [SeriesUnits, string?]
): Reading {
  if (place === undefined) return undefined;
  const [from, to] = place;
  if (damageBefore.test(text.slice(0, from)) || damageAfter.test(text.slice(Math.max(0, to - 1))))
    throw new TelemetryError('value-invalid', `damaged next to the reading: ${sampleOf(text)}`);
  return parseReading(text.slice(from, to), ...known);
}

function requireData(reading: Reading): Reading {
  if (typeof reading !== 'string') return reading;
  throw new TelemetryError('value-invalid', `neither JSON, pairs nor a number: ${sampleOf(reading)}`);
}
