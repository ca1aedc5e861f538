import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';

import { patterns } from './patterns.ts';
import { projectTexts } from './texts.ts';
import type { Text } from './texts.ts';

const countsPath = join(import.meta.dirname, 'counts.json');

/** The hits that each module still may have, by pattern. They only fall. */
export type Counts = Readonly<Record<string, Readonly<Record<string, number>>>>;

export interface Hit {
  readonly text: Text;
  readonly pattern: string;
  readonly instead: string;
}

export function findHits(texts: readonly Text[]): readonly Hit[] {
  return texts.flatMap((text) =>
    patterns
      .filter(({ id }) =>
        id === 'commit-opens' ? text.kind === 'commit' : id !== 'comment-opens' || text.kind === 'comment',
      )
      .flatMap(({ id, expression, instead }) =>
        [...text.text.matchAll(expression)].map((): Hit => ({ text, pattern: id, instead })),
      ),
  );
}

export function countHits(hits: readonly Hit[]): Counts {
  const counts: Record<string, Record<string, number>> = {};
  for (const {
    text: { module },
    pattern,
  } of hits) {
    const ofModule = (counts[module] ??= {});
    ofModule[pattern] = (ofModule[pattern] ?? 0) + 1;
  }
  return counts;
}

export function allowedCounts(): Counts {
  return JSON.parse(readFileSync(countsPath, 'utf8')) as Counts;
}

/** `npx node test/language/lint.ts [--lower] [PATH…]`: prints the hits below these paths, or lowers the allowed counts. */
function main(words: readonly string[]): void {
  const hits = findHits(projectTexts());
  if (words.includes('--lower')) {
    const counts = countHits(hits);
    const sorted = Object.fromEntries(
      Object.keys(counts)
        .sort()
        .map((module) => [
          module,
          Object.fromEntries(Object.entries(counts[module] ?? {}).sort(([a], [b]) => (a < b ? -1 : 1))),
        ]),
    );
    writeFileSync(countsPath, `${JSON.stringify(sorted, null, 2)}\n`);
    return;
  }
  const wanted = hits.filter(({ text: { path } }) => words.length === 0 || words.some((word) => path.startsWith(word)));
  for (const { text, pattern, instead } of wanted)
    console.log(`${text.path}:${text.line}: ${text.kind}, ${pattern} → ${instead}: ${text.text}`);
  console.log(`${wanted.length} hits`);
}

if (import.meta.main) main(process.argv.slice(2));
