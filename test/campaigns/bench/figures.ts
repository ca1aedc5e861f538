import type { Cost } from './measure.ts';
import { spreadOf } from './statistics.ts';
import type { Spread } from './statistics.ts';

export type Unit = '×' | 's' | 'ms' | '%' | 'CPU s/GiB' | 'MiB' | '/min' | 'MB/day' | 'B';

/** One measured thing. */
export interface Figure {
  readonly name: string;
  readonly unit: Unit;
  readonly value: Spread;
  /** Upper limit, or none if the figure is only for information. */
  readonly target?: number | undefined;
  /** How it was got. */
  readonly how: string;
}

/** Cost of a program over all rounds. */
export interface Measurement {
  readonly name: string;
  readonly seconds: Spread;
  readonly cpuSeconds: Spread;
  readonly peakRssMib: Spread;
}

export interface SuiteResult {
  readonly suite: string;
  readonly measurements: readonly Measurement[];
  readonly figures: readonly Figure[];
}

export function measurementsOf(costs: ReadonlyMap<string, readonly Cost[]>): readonly Measurement[] {
  return [...costs].map(([name, all]) => ({
    name,
    seconds: spreadOf(all.map(({ seconds }) => seconds)),
    cpuSeconds: spreadOf(all.map(({ cpuSeconds }) => cpuSeconds)),
    peakRssMib: spreadOf(all.map(({ peakRssMib }) => peakRssMib)),
  }));
}

export function isMissed({ value, target }: Figure): boolean {
  return target !== undefined && !(value.median <= target);
}

/** Tables in Markdown; each figure as its median, with the smallest and the largest. */
export function renderResult({ suite, measurements, figures }: SuiteResult): string {
  const costs = measurements.map(({ name, seconds, cpuSeconds, peakRssMib }) => [
    name,
    show(seconds),
    show(cpuSeconds),
    show(peakRssMib),
  ]);
  const rows = figures.map((figure) => {
    const { name, unit, value, target, how } = figure;
    const aim = target === undefined ? '' : `≤ ${target}`;
    return [name, `${show(value)} ${unit}`, isMissed(figure) ? `${aim} **missed**` : aim, how];
  });
  const tables = [
    ...(costs.length === 0 ? [] : [table(['what', 'wall s', 'CPU s', 'peak RSS MiB'], costs)]),
    table(['figure', 'measured', 'target', 'how'], rows),
  ];
  return `## ${suite}\n\n${tables.join('\n\n')}\n`;
}

function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const ruler = header.map(() => '---');
  return [header, ruler, ...rows]
    .map((cells) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`)
    .join('\n');
}

function show({ median, min, max, count }: Spread): string {
  return count === 1 ? round(median) : `${round(median)} [${round(min)}–${round(max)}]`;
}

function round(value: number): string {
  if (Number.isNaN(value)) return 'none';
  if (Math.abs(value) >= 100) return value.toFixed(0);
  if (Math.abs(value) >= 10) return value.toFixed(1);
  return value.toFixed(Math.abs(value) < 0.1 ? 3 : 2);
}
