import { globSync, readFileSync } from 'node:fs';
import process from 'node:process';

/** Returns the sentences of running text: paragraphs and list items, without tables, headings and code. */
function sentencesOf(page: string): readonly string[] {
  const prose = page.replaceAll(/^```[^]*?^```$/gm, '\n').replaceAll(/^(?: {4}|\||#|<|!?\[!?\[|!\[).*$/gm, '\n');
  return prose.split(/\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )/).flatMap((block) =>
    block
      .replaceAll(/\s+/g, ' ')
      .replace(/^ ?(?:[-*]|\d+\.) /, '')
      .replaceAll(/\]\([^)]*\)/g, ']')
      .trim()
      .split(/(?<=[.!?:](?:\*\*|`|\)|")?) (?=[A-Z`[*("0-9])/)
      .filter((sentence) => /[a-z]/.test(sentence)),
  );
}

/** `node test/language/readability.ts [PAGE…]`: prints the lengths of sentences, in words, and each sentence over 40. */
function main(words: readonly string[]): void {
  const pages = globSync(words.length === 0 ? ['*.md', 'docs/**/*.md'] : [...words]);
  const sentences = pages.flatMap((page) => sentencesOf(readFileSync(page, 'utf8')));
  const lengthOf = (sentence: string): number => sentence.split(' ').length;
  const lengths = sentences.map(lengthOf).sort((a, b) => a - b);
  const at = (part: number): number => lengths[Math.floor(lengths.length * part)] ?? 0;
  const share = (limit: number): string =>
    `${((100 * lengths.filter((length) => length > limit).length) / Math.max(1, lengths.length)).toFixed(1)} %`;
  for (const sentence of sentences.filter((it) => lengthOf(it) > 40)) console.log(sentence);
  console.log(
    `${lengths.length} sentences: median ${at(0.5)}, 90th percentile ${at(0.9)}, over 25 words ${share(25)}, over 40 ${share(40)}`,
  );
}

if (import.meta.main) main(process.argv.slice(2));
