import type { Row, Tone } from '../../control/presentation/rows/row.ts';
import { displayWidth, fitting, printable } from '../../system/log/printable.ts';
import type { Page } from './page.ts';

/** The maximum length of a text; longer texts are truncated. */
const maxParagraph = 600;

/** Renders rows with their labels in one column. Unprintable characters are escaped here. */
export function renderRows(rows: readonly Row[], { columns, paint }: Pick<Page, 'columns' | 'paint'>): string {
  const shown = rows.filter(({ paragraphs }) => paragraphs.length > 0);
  const labels = shown.map(({ label }) => fitting(printable(label), Math.floor(columns / 2)));
  const indent = Math.max(0, ...labels.map(displayWidth)) + 2;
  const lines = shown.flatMap(({ paragraphs, tone }, row) => {
    const label = labels[row] ?? '';
    return paragraphs
      .flatMap((paragraph) => wrap(paragraph, columns - indent))
      .map((line, index) => `${padded(index === 0 ? label : '', indent)}${paint(tone, line)}`);
  });
  return lines.map((line) => `${line.trimEnd()}\n`).join('');
}

function padded(label: string, indent: number): string {
  return label + ' '.repeat(indent - displayWidth(label));
}

/** Renders one paragraph over the whole width. */
export function renderParagraph(
  text: string,
  { columns, paint }: Pick<Page, 'columns' | 'paint'>,
  tone?: Tone,
): string {
  return wrap(text, columns)
    .map((line) => `${paint(tone, line)}\n`)
    .join('');
}

/**
 * Breaks a text into lines of at most `columns` (at least 2) columns: at spaces, and within words that are too long.
 */
export function wrap(text: string, columns: number): readonly string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of words(text, columns)) {
    const longer = line === '' ? word : `${line} ${word}`;
    if (displayWidth(longer) <= columns) {
      line = longer;
      continue;
    }
    lines.push(line);
    line = word;
  }
  lines.push(line);
  return lines;
}

function words(text: string, columns: number): readonly string[] {
  const safe = printable(text);
  const cut = safe.length > maxParagraph ? `${safe.slice(0, maxParagraph).toWellFormed()} ...` : safe;
  return cut.split(' ').flatMap((word) => pieces(word, columns));
}

function pieces(word: string, columns: number): readonly string[] {
  const found: string[] = [];
  let rest = word;
  while (displayWidth(rest) > columns) {
    const piece = fitting(rest, columns);
    found.push(piece);
    rest = rest.slice(piece.length);
  }
  return [...found, rest];
}
