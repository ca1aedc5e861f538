import fc from 'fast-check';

import { formatLine } from '../../../../src/system/log/pino-log.ts';
import { maskAddresses } from '../../../../src/system/log/secrets.ts';
import { Measurement } from '../../../../src/telemetry/measurement.ts';
import { LineSplitter } from '../../../../src/telemetry/sources/line-splitter.ts';
import { numberIn, parseReading } from '../../../../src/telemetry/sources/parse-reading.ts';
import { parseLine } from '../../../../src/telemetry/sources/serial.ts';
import { toText } from '../../../../src/telemetry/value-text.ts';
import { compareVersions } from '../../../../src/update/version-order.ts';
import { hostile } from '../mutation.ts';
import { openTarget, outcomeOf } from '../target.ts';
import type { CaseOf, FuzzTarget } from '../target.ts';

const deep = fc
  .tuple(fc.constantFrom(['[', ']'], ['{"a":', '}'], ['[[1],', ']']), fc.integer({ min: 1, max: 20_000 }))
  .map(([[open = '', close = ''], depth]) => `${open.repeat(depth)}1${close.repeat(depth)}`);
const line = fc.oneof(
  fc.constantFrom('21.5', '{"a":{"b":[1,2]}}', 't=21.5 h=40', 'boot: ready', '1e999', '"x"', 'nan'),
  fc.constantFrom('9007199254740993', '{"a":{"b":[-1e999,18446744073709551615]}}', 't=9007199254740993 h=nan'),
  deep,
  fc.jsonValue().map((value) => JSON.stringify(value)),
);
const bytes = hostile(fc.array(line, { minLength: 1, maxLength: 5 }).map((lines) => Buffer.from(lines.join('\n'))));

const cases = fc.record({
  bytes,
  cut: fc.nat({ max: 5_000 }),
  pattern: fc.constantFrom(undefined, /t=(?<t>[\d.]+)/, /^(\w+\s?)*=(\d+)$/, /(\d+)/),
  pointer: fc.constantFrom('', '/a', '/a/b/0', '/__proto__', '//'),
});

const reduction = { scale: 2, offset: 1, deadband: undefined, heartbeatMs: undefined, over: undefined };

function checkCase({ bytes: stream, cut, pattern, pointer }: CaseOf<typeof cases>): Promise<void> {
  const splitter = new LineSplitter(16 * 1024, () => {});
  const lines = [...splitter.push(stream.subarray(0, cut)), ...splitter.push(stream.subarray(cut))];
  const output = { to: { kind: 'property', id: 'p' } as const, pointer, reduction };
  return use(lines, async (text) => {
    for (const read of [() => parseReading(text), () => parseLine(text, pattern)]) {
      const found = await outcomeOf(read);
      if ('error' in found && found.error.code === 'source-failed') return false;
      if (!('value' in found) || found.value === undefined) continue;
      const values: unknown[] = [];
      const drops: string[] = [];
      const keep = (_: unknown, value: unknown): void => void values.push(value);
      const measurement = new Measurement({ outputs: [output], ignore: [4] });
      const isUsed = measurement.push(found.value, 0, keep, (_, why) => void drops.push(why));
      if (isUsed === drops.length > 0) throw new Error(`used: ${isUsed}, although dropped: ${drops.join()}`);
      for (const value of values) await outcomeOf(() => toText(value));
      requireMean(found.value, pointer);
      if (numberIn(text) !== undefined) requireSameInJson(text);
    }
    return true;
  });
}

/** Throws unless a number that is a text in JSON is sent like the bare number. */
function requireSameInJson(text: string): void {
  const sent = [numberIn(text), text].map((reading) => {
    const values: unknown[] = [];
    const output = { to: { kind: 'property', id: 'p' } as const, pointer: '', reduction };
    const keep = (_: unknown, value: unknown): void => void values.push(value);
    new Measurement({ outputs: [output], ignore: [4] }).push(reading, 0, keep, () => {});
    return JSON.stringify(values);
  });
  if (sent[0] !== sent[1]) throw new Error(`${text} is sent as ${sent[0]}, and in JSON as ${sent[1]}`);
}

/** Throws if the mean of a reading and 5 is anything but a number. */
function requireMean(reading: unknown, pointer: string): void {
  const over = { periodMs: 1_000, aggregate: 'mean' } as const;
  const output = { to: { kind: 'property', id: 'p' } as const, pointer, reduction: { ...reduction, over } };
  const means: unknown[] = [];
  const measurement = new Measurement({ outputs: [output], ignore: [] });
  for (const [index, value] of [reading, { a: { b: [5] } }, reading, 5].entries()) {
    measurement.push(
      value,
      index * 600,
      (_, mean) => void means.push(mean),
      () => {},
    );
  }
  const wrong = means.filter((mean) => typeof mean !== 'number' || Number.isNaN(mean));
  if (wrong.length > 0) throw new Error(`a mean is ${JSON.stringify(wrong)}`);
}

/** Lines per second; the rest is dropped unread (telemetry/source-runner.ts). */
const MOST_LINES = 1_000;

/** A source that failed, of a careless pattern for instance, reads no further: it is begun again after a pause. */
async function use(lines: readonly string[], read: (text: string) => Promise<boolean>): Promise<void> {
  for (const text of lines.slice(0, MOST_LINES)) if (!(await read(text))) return;
}

/** Sensor output of any depth and length. */
export const localData: FuzzTarget = {
  name: 'local-data',
  open: async () => openTarget(cases, checkCase),
};

const LENGTH = 200_000;
const MOST_MS = 1_500;
const readers: readonly ((text: string) => unknown)[] = [
  maskAddresses,
  parseReading,
  (text) => parseLine(text, undefined),
  (text) => formatLine('journal', { at: new Date(0), level: 'info', message: text, fields: { text } }),
  (text) => compareVersions({ id: undefined, name: text }, { id: undefined, name: `${text}1` }),
];
const pumps = fc.record({
  head: fc.string({ maxLength: 4 }),
  pump: fc.string({ unit: fc.constantFrom(...'a1.-+:/?@ ="\'{[,\\\n#%e'.split('')), minLength: 1, maxLength: 6 }),
  tail: fc.string({ maxLength: 2 }),
});

/** A long text of anything that repeats costs no more than its length; the processor's time counts. */
export const longText: FuzzTarget = {
  name: 'long-text',
  maxCaseMs: 20_000,
  open: async () =>
    openTarget(pumps, async ({ head, pump, tail }) => {
      const text = `${head}${pump.repeat(LENGTH / pump.length)}${tail}`;
      for (const [index, read] of readers.entries()) {
        const before = process.cpuUsage();
        await outcomeOf(() => read(text));
        const ms = process.cpuUsage(before).user / 1_000;
        if (ms > MOST_MS) throw new Error(`reader ${index} took ${Math.round(ms)} ms`);
      }
    }),
};
