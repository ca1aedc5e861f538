import * as z from 'zod';

import { isSecretKey, maskAddress } from '../../system/log/secrets.ts';
import { nearest } from '../../system/nearest.ts';
import { unwrapSchema } from '../../system/settings/settings.ts';
import type { Finding } from '../cross-check.ts';
import type { ConfigProblem } from '../errors.ts';
import { type KeyNode, lineOf } from './key-lines.ts';

type Issue = z.core.$ZodIssue;
type Path = readonly PropertyKey[];

/** The input in which issues were found, and its schema. */
export interface ValidatedInput {
  readonly schema: z.ZodType;
  readonly input: unknown;
  readonly keyLines: KeyNode;
}

/**
 * Describes Zod's issues in the order of the file. If two rules report the same problem of one value, it is reported
 * once.
 */
export function describeIssues(issues: readonly Issue[], examined: ValidatedInput): readonly ConfigProblem[] {
  const problems = issues
    .filter((issue) => !isMaskedByTypeError(issue, issues))
    .flatMap((issue) => describeIssue(issue, examined));
  const once = new Map(problems.map((problem) => [`${problem.line} ${problem.message}`, problem]));
  return [...once.values()].sort((a, b) => (a.line ?? 0) - (b.line ?? 0));
}

/** True if an issue about the size does not matter because the value has the wrong type. */
function isMaskedByTypeError({ code, path }: Issue, issues: readonly Issue[]): boolean {
  if (code !== 'too_big' && code !== 'too_small') return false;
  return issues.some((other) => other.code === 'invalid_type' && keyPath(other.path) === keyPath(path));
}

function describeIssue(issue: Issue, examined: ValidatedInput): readonly ConfigProblem[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => unknownKey([...issue.path, key], examined));
  }
  const inner = issue.code === 'invalid_union' ? closestBranch(issue) : undefined;
  if (inner !== undefined) {
    return inner.flatMap((below) => describeIssue({ ...below, path: [...issue.path, ...below.path] }, examined));
  }
  return [wrongValue(issue, examined)];
}

/** The issues of the option of a union without `kind` whose outer shape fits the input. */
function closestBranch(issue: z.core.$ZodIssueInvalidUnion): readonly Issue[] | undefined {
  return issue.errors.find((issues) =>
    issues.every((below) => below.path.length > 0 || below.code === 'unrecognized_keys'),
  );
}

/** The reasons for rejecting keys of an earlier agent, worded to follow the key. */
const removedKeys: Readonly<Record<string, string>> = {
  'system.helper': 'was removed, since the agent is always one process: delete this line',
};

function unknownKey(path: Path, { schema, input, keyLines }: ValidatedInput): ConfigProblem {
  const key = String(path.at(-1));
  const removed = removedKeys[keyPath(path)];
  if (removed !== undefined) return { line: lineOf(keyLines, path), message: `${keyPath(path)} ${removed}` };
  const table = path.slice(0, -1);
  const meant = nearest(key, knownKeys(schema, table, input));
  const hint = meant === undefined ? belonging(path, { schema, input }) : didYouMean(meant, '');
  return { line: lineOf(keyLines, path), message: `unknown key ${keyPath(path)}${hint}` };
}

/** Explains a table such as `service = { … }` that is written behind a `[table]`, and so belongs to that one. */
function belonging(path: Path, { schema, input }: Pick<ValidatedInput, 'schema' | 'input'>): string {
  const key = String(path.at(-1));
  const isTable = typeof valueAt(input, path) === 'object';
  if (isTable && path.length > 1 && knownKeys(schema, [], input).includes(key))
    return ` (to be a table of its own it stands above the first [table], or is written as [${key}])`;
  const [elsewhere, ...more] = tablesWithKey(schema, key);
  return elsewhere === undefined || more.length > 0 ? '' : ` (it belongs in ${elsewhere})`;
}

function wrongValue(issue: Issue, { input, keyLines }: ValidatedInput): ConfigProblem {
  const value = valueAt(input, issue.path);
  const line = lineOf(keyLines, issue.path);
  const expected = alternatives(expectations(issue));
  if (value === undefined) return { line, message: `${keyPath(issue.path)} is missing: expected ${expected}` };
  if (issue.code === 'invalid_key') return { line, message: `${keyPath(issue.path)}: expected ${expected}` };
  const found = isSecretKey(String(issue.path.at(-1))) ? 'something else' : describeValue(value);
  const meant = typeof value === 'string' ? nearest(value, choices(issue)) : undefined;
  return { line, message: `${keyPath(issue.path)}: expected ${expected}, found ${found}${didYouMean(meant, '"')}` };
}

function didYouMean(word: string | undefined, quote: string): string {
  return word === undefined ? '' : ` (did you mean ${quote}${word}${quote}?)`;
}

function choices(issue: Issue): readonly string[] {
  if (issue.code === 'invalid_value') return issue.values.map(String);
  if (issue.code !== 'invalid_union') return [];
  if ('options' in issue && issue.options !== undefined) return issue.options.map(String);
  return issue.errors.flat().flatMap(choices);
}

const typeWords: Readonly<Record<string, string>> = {
  string: 'a text',
  object: 'a table',
  record: 'a table',
  array: 'a list',
  tuple: 'a list',
  boolean: 'true or false',
};

/**
 * Texts that complete "expected …". They come from values.ts; a message is empty if the type of the issue suffices.
 */
function expectations(issue: Issue): readonly string[] {
  if (issue.message !== '') return [issue.message];
  if (issue.code === 'invalid_type') return [typeWords[issue.expected] ?? issue.expected];
  if (issue.code === 'invalid_key') return issue.issues.slice(0, 1).flatMap(expectations);
  if (issue.code === 'invalid_union' && issue.errors.length > 0) {
    return issue.errors.flatMap((issues) => issues.slice(0, 1).flatMap(expectations));
  }
  if (issue.code === 'too_big') return [`at most ${issue.maximum} of them`];
  return choices(issue).map(quote);
}

export function alternatives(words: readonly string[]): string {
  const last = words.at(-1) ?? 'something else';
  return words.length < 2 ? last : `${words.slice(0, -1).join(', ')} or ${last}`;
}

const MAX_SHOWN = 60;

/** A value for a message: short, on one line, and with addresses without their user. */
export function describeValue(value: unknown): string {
  if (typeof value === 'string') return shorten(JSON.stringify(maskAddress(value)));
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  if (value instanceof Date) return 'a date';
  return 'a table';
}

function shorten(text: string): string {
  return text.length <= MAX_SHOWN ? text : `${text.slice(0, MAX_SHOWN)}…`;
}

function quote(word: string): string {
  return `"${word}"`;
}

/** `sensors[0].source.kind`, `targets."odd name".slots`. */
export function keyPath(path: Path): string {
  return path
    .map((key, index) => {
      if (typeof key === 'number') return `[${key}]`;
      const name = /^[A-Za-z0-9_-]+$/.test(String(key)) ? String(key) : shorten(JSON.stringify(String(key)));
      return index === 0 ? name : `.${name}`;
    })
    .join('');
}

/** A finding about the value at this path. `why` continues the key: `: …` or ` needs …`. */
export function findingAt(path: Path, why: string): Finding {
  return { path, message: `${keyPath(path)}${why}` };
}

/** Returns the keys that the schema knows in the table at `path` of `input`, restricted to its `kind` if it has one. */
function knownKeys(schema: unknown, path: readonly PropertyKey[], input: unknown): readonly string[] {
  return tablesAt(schema, path, input).flatMap((table) => Object.keys(table.shape));
}

/** Returns the tables in which the schema knows this key, as written in the file: `[update]`, `[targets.NAME]`. */
function tablesWithKey(schema: unknown, key: string): readonly string[] {
  const found = new Set<string>();
  const visit = (inner: unknown, path: readonly string[]): void => {
    const type = unwrapSchema(inner);
    if (type instanceof z.ZodObject) {
      const shape: Readonly<Record<string, unknown>> = type.shape;
      if (key in shape && path.length > 0) found.add(`[${path.join('.')}]`);
      for (const [name, below] of Object.entries(shape)) visit(below, [...path, name]);
    }
    if (type instanceof z.ZodRecord) visit(type.valueType, [...path, 'NAME']);
    if (type instanceof z.ZodUnion) for (const option of type.options) visit(option, path);
  };
  visit(schema, []);
  return [...found];
}

function tablesAt(schema: unknown, path: readonly PropertyKey[], input: unknown): readonly z.ZodObject[] {
  const type = unwrapSchema(schema);
  if (type instanceof z.ZodUnion) {
    return type.options.filter((option) => mayBe(option, input)).flatMap((option) => tablesAt(option, path, input));
  }
  const [key, ...rest] = path;
  if (key === undefined) return type instanceof z.ZodObject ? [type] : [];
  const below = valueAt(input, [key]);
  if (type instanceof z.ZodObject) return tablesAt(type.shape[String(key)], rest, below);
  if (type instanceof z.ZodRecord) return tablesAt(type.valueType, rest, below);
  if (type instanceof z.ZodArray) return tablesAt(type.element, rest, below);
  return [];
}

/** True if the input may be this option of a union, according to its `kind`. */
function mayBe(option: unknown, input: unknown): boolean {
  const kind: unknown = option instanceof z.ZodObject ? option.shape['kind'] : undefined;
  return !(kind instanceof z.ZodLiteral) || kind.safeParse(valueAt(input, ['kind'])).success;
}

/** Returns the value of the input at this path, or undefined. */
export function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  let value = input;
  for (const key of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = Object.getOwnPropertyDescriptor(value, key)?.value;
  }
  return value;
}
