import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';

import { parseAst } from 'rolldown/parseAst';
import { expect, test } from 'vitest';

import { usableSerialNumber } from '../src/system/device/serial-number.ts';
import { describeError } from '../src/system/errors.ts';
import { formatLine } from '../src/system/log/pino-log.ts';
import { Redactor } from '../src/system/log/redactor.ts';
import { cutText, maskAddresses } from '../src/system/log/secrets.ts';
import { LineSplitter } from '../src/telemetry/sources/line-splitter.ts';
import { atPointer, parsePairs, parseReading } from '../src/telemetry/sources/parse-reading.ts';
import { compareVersions } from '../src/update/version-order.ts';

/**
 * How the time grows with the length of a text, measured in one run: what is linear takes four times as long for four times
 * as much, what is quadratic sixteen times. Short times say nothing.
 */
const SHORT = 8_000;
const TIMES = 4;
const MOST_GROWTH = 9;
const NEGLIGIBLE_MS = 25;
/** So often the shortest times may show it. */
const ROUNDS = 10;

/** Time of the processor, which others use, too. */
function milliseconds(work: () => unknown): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

/** Returns the problem, or undefined for acceptable growth. */
function growthProblem(work: (text: string) => unknown, make: (length: number) => string): string | undefined {
  // exponential ones never come to an end with the long text
  for (const length of [16, 22, 28, 200]) {
    const ms = milliseconds(() => work(make(length)));
    if (ms > 4 * NEGLIGIBLE_MS) return `${Math.round(ms)} ms for ${length} characters`;
  }
  const [short, long] = [make(SHORT), make(TIMES * SHORT)];
  let [shortMs, longMs] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let round = 0; round < ROUNDS; round += 1) {
    longMs = Math.min(
      longMs,
      milliseconds(() => work(long)),
    );
    if (longMs < NEGLIGIBLE_MS) return undefined;
    shortMs = Math.min(
      shortMs,
      milliseconds(() => work(short)),
    );
    if (longMs / shortMs < MOST_GROWTH) return undefined;
  }
  return `${(longMs / shortMs).toFixed(1)} times as long for ${TIMES} times as much`;
}

interface Expression {
  readonly place: string;
  readonly pattern: string;
  readonly flags: string;
}

const sources = join(import.meta.dirname, '../src');

function expressionsOf(file: string): readonly Expression[] {
  const found: Expression[] = [];
  const visit = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return;
    if ('regex' in node) found.push({ ...(node.regex as { pattern: string; flags: string }), place: file });
    for (const child of Object.values(node)) visit(child);
  };
  visit(parseAst(readFileSync(join(sources, file), 'utf8'), { lang: 'ts' }));
  return found;
}

const expressions = globSync('**/*.ts', { cwd: sources }).flatMap(expressionsOf);

/** Repeated texts that nearly match an expression: its own characters, and its classes' characters. */
function pumpsOf(pattern: string): readonly string[] {
  const own = [...new Set(pattern.replaceAll(/\\[a-zA-Z]|[[\](){}|?*+^$\\]/g, ''))].slice(0, 10);
  const single = [...new Set([...own, 'a', '0', ' ', '-', '.', ':', '/'])];
  const pairs = own.flatMap((first) => [...own.slice(0, 4), 'a', '0'].map((second) => `${first}${second}`));
  return [...single, ...pairs, 'a0-', '://', '://a'];
}

function repeated(pump: string, length: number): string {
  return pump.repeat(Math.ceil(length / pump.length)).slice(0, length);
}

test('the house has expressions', () => {
  expect(expressions.length).toBeGreaterThan(50);
});

test('each of our regular expressions takes time in proportion to the text', { timeout: 300_000 }, () => {
  const problems = expressions.flatMap(({ place, pattern, flags }) => {
    const expression = new RegExp(pattern, flags);
    const work = (text: string): unknown =>
      flags.includes('g') ? text.replaceAll(expression, '') : expression.exec(text);
    for (const pump of pumpsOf(pattern)) {
      for (const end of ['\u0001', '']) {
        const problem = growthProblem(work, (length) => `${repeated(pump, length)}${end}`);
        if (problem !== undefined) return [`${place}: /${pattern}/${flags} with ${JSON.stringify(pump)}: ${problem}`];
      }
    }
    return [];
  });
  expect(problems).toEqual([]);
});

const at = new Date(0);
const readers: Readonly<Record<string, (text: string) => unknown>> = {
  maskAddresses,
  cutText: (text) => cutText(text, 1_000),
  describeError: (text) => describeError(new Error(text)),
  formatLine: (text) => formatLine('journal', { at, level: 'info', message: text, fields: { text } }),
  parseReading,
  parsePairs,
  atPointer: (text) => atPointer({ a: 1 }, text),
  redact: (text) => new Redactor(['s3cret', 'pw']).redact(text),
  LineSplitter: (text) => new LineSplitter(4_096, () => {}).push(Buffer.from(text)),
  compareVersions: (text) => compareVersions({ id: undefined, name: text }, { id: undefined, name: `${text}1` }),
  usableSerialNumber,
};
const pieces = [
  'a',
  'a1-',
  '1.',
  '://',
  'a://b',
  'x://a:',
  '?',
  ' ',
  '"',
  '\n',
  '{"a":',
  '[',
  'a=1 ',
  '+1',
  '~1/',
  '\u2028',
  'password="',
  'token: \\"',
  '-----BEGIN PRIVATE KEY-----',
];

test.each(Object.entries(readers))('%s takes time in proportion to the text', (_, read) => {
  const problems = pieces.flatMap((piece) => {
    const attempt = (text: string): void => {
      try {
        read(text);
      } catch (error) {
        if (!(error instanceof Error && 'code' in error)) throw error;
      }
    };
    const problem = growthProblem(attempt, (length) => repeated(piece, length));
    return problem === undefined ? [] : [`${JSON.stringify(piece)}: ${problem}`];
  });
  expect(problems).toEqual([]);
});
