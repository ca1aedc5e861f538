import { hash } from 'node:crypto';

import { MAX_WINDOW_BYTES } from './container.ts';

/** The unit that file systems move as a whole: the smallest block of ext4. */
const BLOCK_BYTES = 1024;
/** A window that ends early because another part of the base fits better is at least this long. */
const SHORTEST_BYTES = 64 * 1024;
/** The base fits better elsewhere if it has this number of the next blocks there. */
const LOOK_BLOCKS = 64;
const FITTING_BLOCKS = 16;
/**
 * The number of places of the base that are tried for a window, and their least distance, since a part around each
 * place is tried.
 */
const PLACES = 3;
const APART_BYTES = 512 * 1024;
/** A block that occurs more than once in the base, such as zeros: it tells no place. */
const AMBIGUOUS = -1;

/** A part of the result, and the places of the base where it, or most of it, may stand. */
export interface MatchedPart {
  readonly at: number;
  readonly bytes: Buffer;
  readonly places: readonly number[];
}

/**
 * Cuts the result into windows of at most `windowBytes`: where the content that follows comes from elsewhere in the
 * base, and evenly between these cuts. Content is found by whole blocks, also if something before it grew, shrank or
 * moved.
 */
export function* matchedParts(
  base: Buffer,
  result: Buffer,
  windowBytes = MAX_WINDOW_BYTES,
): Generator<MatchedPart, void, undefined> {
  const shifts = shiftsOf(base, result);
  for (const [from, to] of runsOf(shifts, result.byteLength)) {
    const pieces = Math.ceil((to - from) / windowBytes);
    const pieceBytes = Math.ceil((to - from) / pieces);
    for (let at = from; at < to; at += pieceBytes) {
      const bytes = result.subarray(at, Math.min(to, at + pieceBytes));
      const votes = shifts.slice(Math.ceil(at / BLOCK_BYTES), Math.ceil((at + bytes.byteLength) / BLOCK_BYTES));
      yield { at, bytes, places: placesOf(at, votes, base.byteLength - bytes.byteLength) };
    }
  }
}

type Shift = number | undefined;

/**
 * Returns, for each block of the result, the distance to its place in the base, or undefined if the base does not hold
 * it, or more than once.
 */
function shiftsOf(base: Buffer, result: Buffer): readonly Shift[] {
  const known = new Map<string, number>();
  for (let at = 0; at + BLOCK_BYTES <= base.byteLength; at += BLOCK_BYTES) {
    const key = keyOf(base, at);
    known.set(key, known.has(key) ? AMBIGUOUS : at);
  }
  const shifts: Shift[] = [];
  for (let at = 0; at + BLOCK_BYTES <= result.byteLength; at += BLOCK_BYTES) {
    const found = known.get(keyOf(result, at)) ?? AMBIGUOUS;
    shifts.push(found === AMBIGUOUS ? undefined : found - at);
  }
  return shifts;
}

/** Returns the ranges of the result that the base holds without a jump, apart from changed blocks. */
function runsOf(shifts: readonly Shift[], sizeBytes: number): readonly (readonly [number, number])[] {
  const runs: (readonly [number, number])[] = [];
  let from = 0;
  let current: Shift;
  for (const [index, shift] of shifts.entries()) {
    if (shift === undefined || shift === current) continue;
    const at = index * BLOCK_BYTES;
    const next = shifts.slice(index, index + LOOK_BLOCKS);
    if (next.filter((other) => other === shift).length < FITTING_BLOCKS) continue;
    if (at - from < SHORTEST_BYTES) {
      if (current === undefined) current = shift;
      continue;
    }
    runs.push([from, at]);
    from = at;
    current = shift;
  }
  return [...runs, [from, sizeBytes]];
}

/** The places to try: first the same place as in the result, then those that most blocks suggest. */
function placesOf(at: number, votes: readonly Shift[], last: number): readonly number[] {
  const counts = new Map<number, number>();
  for (const shift of votes) if (shift !== undefined) counts.set(shift, (counts.get(shift) ?? 0) + 1);
  const best = [...counts].sort(([, left], [, right]) => right - left).map(([shift]) => Math.max(0, at + shift));
  const chosen = [Math.min(at, Math.max(0, last))];
  for (const place of best) {
    const isNew = chosen.every((other, index) => Math.abs(other - place) >= (index === 0 ? 1 : APART_BYTES));
    if (isNew) chosen.push(place);
    if (chosen.length === PLACES) break;
  }
  return chosen;
}

function keyOf(image: Buffer, at: number): string {
  return hash('sha1', image.subarray(at, at + BLOCK_BYTES), 'base64');
}
