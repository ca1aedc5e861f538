import fc from 'fast-check';

import { anyCharacter } from '../../any-character.ts';

/** One change of some bytes, at a place that is a fraction of their length. */
export type Edit =
  | { readonly kind: 'flip'; readonly at: number; readonly bits: number }
  | { readonly kind: 'set'; readonly at: number; readonly byte: number }
  | { readonly kind: 'insert'; readonly at: number; readonly bytes: Uint8Array }
  | { readonly kind: 'cut'; readonly at: number; readonly length: number }
  | { readonly kind: 'end'; readonly at: number }
  | { readonly kind: 'repeat'; readonly at: number; readonly length: number; readonly times: number }
  | { readonly kind: 'move'; readonly at: number; readonly length: number; readonly to: number }
  | { readonly kind: 'number'; readonly at: number; readonly text: string };

const MOST_BYTES = 512 * 1024;

const place = fc.double({ min: 0, max: 1, noNaN: true });
const length = fc.oneof(fc.integer({ min: 1, max: 16 }), fc.integer({ min: 1, max: 4096 }));

/** Values that break parsers: ends of strings, escapes, ends of lines, zero, the largest byte. */
const telling = fc.constantFrom(
  0x00,
  0x09,
  0x0a,
  0x0d,
  0x20,
  0x22,
  0x2f,
  0x3a,
  0x5b,
  0x5c,
  0x5d,
  0x7b,
  0x7d,
  0x7f,
  0xff,
);
const numbers = fc.constantFrom(
  '0',
  '-1',
  '00',
  '1e309',
  '2147483648',
  '4294967296',
  '9007199254740993',
  '18446744073709551616',
  'NaN',
  '0x10',
  '1.5',
);

const edit: fc.Arbitrary<Edit> = fc.oneof(
  fc.record({ kind: fc.constant('flip' as const), at: place, bits: fc.integer({ min: 1, max: 255 }) }),
  fc.record({ kind: fc.constant('set' as const), at: place, byte: telling }),
  fc.record({ kind: fc.constant('insert' as const), at: place, bytes: fc.uint8Array({ minLength: 1, maxLength: 40 }) }),
  fc.record({ kind: fc.constant('cut' as const), at: place, length }),
  fc.record({ kind: fc.constant('end' as const), at: place }),
  fc.record({
    kind: fc.constant('repeat' as const),
    at: place,
    length,
    times: fc.oneof(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 2000 })),
  }),
  fc.record({ kind: fc.constant('move' as const), at: place, length, to: place }),
  fc.record({ kind: fc.constant('number' as const), at: place, text: numbers }),
);

/** A few changes; seldom none. */
export const edits: fc.Arbitrary<readonly Edit[]> = fc.array(edit, { maxLength: 5 });

export function edited(bytes: Uint8Array, changes: readonly Edit[]): Buffer {
  return changes.reduce(apply, Buffer.from(bytes));
}

export function editedText(text: string, changes: readonly Edit[]): string {
  return edited(Buffer.from(text, 'utf8'), changes).toString('utf8');
}

export function mutated(original: fc.Arbitrary<Uint8Array>): fc.Arbitrary<Buffer> {
  return fc.tuple(original, edits).map(([bytes, changes]) => edited(bytes, changes));
}

export function mutatedText(original: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc.tuple(original, edits).map(([text, changes]) => editedText(text, changes));
}

/** Mostly something valid with changes, sometimes anything. */
export function hostile(original: fc.Arbitrary<Uint8Array>): fc.Arbitrary<Buffer> {
  const noise = fc.uint8Array({ maxLength: 2000 }).map((bytes) => Buffer.from(bytes));
  return fc.oneof({ arbitrary: mutated(original), weight: 9 }, { arbitrary: noise, weight: 1 });
}

function apply(bytes: Buffer, change: Edit): Buffer {
  const at = Math.floor(change.at * bytes.byteLength);
  const before = bytes.subarray(0, at);
  const after = bytes.subarray(at);
  switch (change.kind) {
    case 'flip':
      return replaced(bytes, at, (bytes[at] ?? 0) ^ change.bits);
    case 'set':
      return replaced(bytes, at, change.byte);
    case 'insert':
      return Buffer.concat([before, change.bytes, after]);
    case 'cut':
      return Buffer.concat([before, after.subarray(change.length)]);
    case 'end':
      return before;
    case 'repeat': {
      const part = after.subarray(0, change.length);
      const times = Math.min(change.times, Math.floor(MOST_BYTES / Math.max(1, part.byteLength)));
      return Buffer.concat([before, ...Array.from({ length: times }, () => part), after]);
    }
    case 'move': {
      const rest = Buffer.concat([before, after.subarray(change.length)]);
      const to = Math.floor(change.to * rest.byteLength);
      return Buffer.concat([rest.subarray(0, to), after.subarray(0, change.length), rest.subarray(to)]);
    }
    case 'number':
      return replacedNumber(bytes, at, change.text);
  }
}

function replaced(bytes: Buffer, at: number, byte: number): Buffer {
  const copy = Buffer.from(bytes);
  if (at < copy.byteLength) copy[at] = byte;
  return copy;
}

/** Replaces the next decimal number. */
function replacedNumber(bytes: Buffer, at: number, text: string): Buffer {
  const rest = bytes.subarray(at).toString('latin1');
  return Buffer.concat([bytes.subarray(0, at), Buffer.from(rest.replace(/\d+/, text), 'latin1')]);
}

/** A change to a member of a JSON value, chosen by numbers from the root on. */
export interface JsonChange {
  readonly at: readonly number[];
  readonly value: unknown;
  readonly isRemoved: boolean;
}

const strangeValue: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(null, '', 'A', 'B', 'C', ' ', '../x', '__proto__', 0, -1, 1.5, 1e21, true, [], {}),
  fc.string({ unit: anyCharacter, maxLength: 20 }),
  fc.jsonValue({ maxDepth: 2 }),
);

export const jsonChanges: fc.Arbitrary<readonly JsonChange[]> = fc.array(
  fc.record({ at: fc.array(fc.nat(), { minLength: 1, maxLength: 6 }), value: strangeValue, isRemoved: fc.boolean() }),
  { minLength: 1, maxLength: 3 },
);

export function changedJson(value: unknown, changes: readonly JsonChange[]): unknown {
  const copy: unknown = structuredClone(value);
  for (const { at, value: strange, isRemoved } of changes) changeAt(copy, at, isRemoved ? undefined : strange);
  return copy;
}

function changeAt(root: unknown, path: readonly number[], value: unknown): void {
  let here = root;
  for (const [depth, choice] of path.entries()) {
    if (typeof here !== 'object' || here === null) return;
    const members = here as Record<string, unknown>;
    const keys = Object.keys(members);
    const key = keys[choice % Math.max(1, keys.length)];
    if (key === undefined) return;
    const next = members[key];
    const isLast = depth === path.length - 1 || typeof next !== 'object' || next === null;
    if (isLast && value === undefined) delete members[key];
    if (isLast && value !== undefined) members[key] = structuredClone(value);
    if (isLast) return;
    here = next;
  }
}
