/** Longer words are not compared, since no name is that long and the work grows with the length. */
const MAX_TYPED = 64;

/** Returns the candidate most similar to a typed word, or undefined if none is similar. */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  if (word.length > MAX_TYPED) return undefined;
  const typed = simplify(word);
  const bound = Math.max(1, Math.floor(typed.length / 3));
  let best: { readonly candidate: string; readonly distance: number } | undefined;
  for (const candidate of candidates) {
    const known = simplify(candidate);
    const distance = isPart(typed, known) ? bound : editDistance(typed, known);
    if (distance <= bound && (best === undefined || distance < best.distance)) best = { candidate, distance };
  }
  return best?.candidate;
}

function simplify(word: string): string {
  return word.toLowerCase().replaceAll(/[-_ ]/g, '');
}

function isPart(a: string, b: string): boolean {
  return (a.length >= 4 && b.includes(a)) || (b.length >= 4 && a.includes(b));
}

/** The number of insertions, deletions, substitutions and swaps of neighbours (optimal string alignment). */
export function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      row.push(
        Math.min(
          at(last, j) + 1,
          at(row, j - 1) + 1,
          at(last, j - 1) + cost,
          swapped ? at(beforeLast, j - 2) + 1 : Infinity,
        ),
      );
    }
    beforeLast = last;
    last = row;
  }
  return at(last, b.length);
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Infinity;
}
