import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { BrokerFigures } from './broker.ts';
import { isMissed } from './figures.ts';
import type { Figures } from './figures.ts';
import { renderPlot } from './plot.ts';

const columns = [
  ['scenario', ({ name }: Figures) => name],
  ['mean/s', ({ meanPerMinute }: Figures) => (meanPerMinute / 60).toFixed(1)],
  ['p50', (figures: Figures) => times(figures, figures.quantiles.p50)],
  ['p99', (figures: Figures) => times(figures, figures.quantiles.p99)],
  ['p99.9', (figures: Figures) => times(figures, figures.quantiles.p999)],
  ['goal', ({ mostTimesMean }: Figures) => mostTimesMean?.toFixed(1) ?? '–'],
  ['busiest second', ({ busiestSecondTimesMean }: Figures) => busiestSecondTimesMean.toFixed(1)],
  ['busiest minute of all', (figures: Figures) => times(figures, figures.busiestMinute)],
  ['requests', ({ requests }: Figures) => String(requests)],
  ['refused', ({ refused }: Figures) => String(refused)],
  ['unpromised', ({ unpromised }: Figures) => String(unpromised)],
  ['all updated after', (figures: Figures) => updatedAfter(figures)],
  ['GB', ({ bytes }: Figures) => (bytes / 1e9).toFixed(0)],
  ['', (figures: Figures) => (isMissed(figures) ? 'missed' : '')],
] as const;

/** As a table of the page. */
export function renderTable(figures: readonly Figures[]): string {
  const rows = figures.map((each) => columns.map(([, show]) => show(each)));
  const lines = [columns.map(([title]) => title), columns.map(() => '---'), ...rows];
  return `${lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n')}\n`;
}

/** The same of those that lost their broker. */
export function renderBrokers(figures: readonly BrokerFigures[]): string {
  const rows = figures.map(({ awayMs, busiestSecondAway, busiestSecondBack, allBackMs }) => [
    `${awayMs / 1000} s`,
    percent(busiestSecondAway),
    percent(busiestSecondBack),
    `${(allBackMs / 1000).toFixed(0)} s`,
  ]);
  const titles = ['broker away', 'of the fleet in the busiest second meanwhile', 'after it is back', 'all back after'];
  const lines = [titles, titles.map(() => '---'), ...rows];
  return `${lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n')}\n`;
}

function percent(part: number): string {
  return `${(part * 100).toFixed(1)} %`;
}

/** One for each scenario. */
export async function writePlots(figures: readonly Figures[], folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (const each of figures) await writeFile(join(folder, `${each.name}.svg`), renderPlot(each));
}

function times({ meanPerMinute }: Figures, perMinute: number): string {
  return (perMinute / meanPerMinute).toFixed(2);
}

function updatedAfter({ updated, updatedAfterMs, things }: Figures): string {
  if (updatedAfterMs === undefined) return '–';
  const minutes = (updatedAfterMs / 60_000).toFixed(0);
  return updated === things ? `${minutes} min` : `${updated} of them within ${minutes} min`;
}
