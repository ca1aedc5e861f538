import { readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';

import type { Figure, SuiteResult } from '../figures.ts';

const project = resolve(import.meta.dirname, '../../../..');
const RECORDED = join(import.meta.dirname, 'recorded.json');
const DRAWING = join(project, 'docs/images/performance.svg');
/** A figure that is worse by more than this fails the run. */
const TOLERANCE = 1.05;

/** The median of a figure in the recorded runs. */
interface Recorded {
  readonly suite: string;
  readonly name: string;
  readonly unit: Figure['unit'];
  readonly before?: number | undefined;
  readonly now?: number | undefined;
  readonly target?: number | undefined;
}

export type RecordedRun = 'before' | 'now';

/** True if the figure holds for other machines, too: bytes, or a ratio to another figure of the same run. */
function isComparable({ unit, value }: Figure): boolean {
  return (unit === '×' || unit === 'B') && !Number.isNaN(value.median);
}

async function readRecorded(): Promise<readonly Recorded[]> {
  return JSON.parse(await readFile(RECORDED, 'utf8')) as readonly Recorded[];
}

/** Returns what is more than 5 % worse than in the recorded run. */
export async function worseThanRecorded(results: readonly SuiteResult[]): Promise<readonly string[]> {
  const recorded = await readRecorded();
  return results.flatMap(({ suite, figures }) =>
    figures.filter(isComparable).flatMap(({ name, value, unit }) => {
      const { now } = recorded.find((one) => one.suite === suite && one.name === name) ?? {};
      const isWorse = now !== undefined && value.median > now * TOLERANCE;
      return isWorse ? [`${suite}: ${name}: ${value.median.toFixed(2)} ${unit}, recorded ${now.toFixed(2)}`] : [];
    }),
  );
}

/** Records a run and draws all recorded figures. Returns the exit code. */
export async function record(results: readonly SuiteResult[], run: RecordedRun): Promise<number> {
  const all = [...(await readRecorded())];
  for (const { suite, figures } of results) {
    for (const { name, unit, value, target } of figures.filter(isComparable)) {
      const at = all.findIndex((one) => one.suite === suite && one.name === name);
      const median = Number(value.median.toPrecision(4));
      const entry = { ...all[at], suite, name, unit, [run]: median, target };
      if (at === -1) all.push(entry);
      else all[at] = entry;
    }
  }
  await writeFile(RECORDED, `${JSON.stringify(all, undefined, 2)}\n`);
  await writeFile(DRAWING, draw(all.filter(({ before, now }) => before !== undefined && now !== undefined)));
  return 0;
}

const ROW = 34;
const [LABELS, BARS] = [360, 300];

/** Bars for before and now; each pair has its own scale. */
function draw(figures: readonly Recorded[]): string {
  const rows = figures.map(({ suite, name, unit, before = 0, now = 0, target }, index) => {
    const scale = BARS / Math.max(before, now, target ?? 0);
    const y = 40 + index * ROW;
    const bar = (value: number, at: number, color: string): string =>
      `<rect x="${LABELS}" y="${y + at}" width="${(value * scale).toFixed(1)}" height="11" fill="${color}"/>` +
      `<text x="${LABELS + BARS + 8}" y="${y + at + 10}">${value} ${unit}</text>`;
    const goal =
      target === undefined
        ? ''
        : `<path d="M${(LABELS + target * scale).toFixed(1)} ${y - 2}v28" stroke="#c33" stroke-dasharray="3 2"/>`;
    const label = `<text x="${LABELS - 8}" y="${y + 16}" text-anchor="end">${escape(`${suite}: ${name}`)}</text>`;
    return `${label}${bar(before, 0, '#9aa5b1')}${bar(now, 12, '#2f6f9f')}${goal}`;
  });
  const [width, height] = [LABELS + BARS + 90, 50 + figures.length * ROW];
  const legend = `<text x="${LABELS}" y="20"><tspan fill="#6b7783">before</tspan> · <tspan fill="#2f6f9f">now</tspan> · <tspan fill="#c33">target</tspan></text>`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="11" role="img"><title>Figures before and now</title><rect width="100%" height="100%" fill="#fff"/>${legend}${rows.join('\n')}</svg>\n`;
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
