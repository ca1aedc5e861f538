import type { Figures } from './figures.ts';

const WIDTH = 760;
const HEIGHT = 240;
const LEFT = 50;
const TOP = 30;
const RIGHT = 15;
const BOTTOM = 35;

/** Plots requests per minute, as multiples of the schedule's mean, with rejected ones in another color. */
export function renderPlot({ name, what, meanPerMinute, things, perMinute, refusedPerMinute }: Figures): string {
  const most = Math.max(2, Math.ceil((Math.max(...perMinute) / meanPerMinute) * 1.05));
  const x = (minute: number): number => LEFT + (minute / perMinute.length) * (WIDTH - LEFT - RIGHT);
  const y = (count: number): number => HEIGHT - BOTTOM - (count / meanPerMinute / most) * (HEIGHT - TOP - BOTTOM);
  const area = (counts: readonly number[]): string => {
    const steps = counts.map(
      (count, minute) => `${x(minute).toFixed(1)},${y(count).toFixed(1)} H${x(minute + 1).toFixed(1)}`,
    );
    return `M${x(0)},${y(0)} L${steps.join(' L')} L${x(counts.length)},${y(0)} Z`;
  };
  const ticks = Array.from({ length: 5 }, (_, index) => (most * index) / 4);
  const hours = Array.from({ length: Math.floor(perMinute.length / 60) + 1 }, (_, hour) => hour);
  const lines = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="11">`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>`,
    `<text x="${LEFT}" y="18" font-size="13">${name}: ${what.replaceAll('`', '')} (${things.toLocaleString('en')} things)</text>`,
    ...ticks.map((tick) => {
      const at = y(tick * meanPerMinute).toFixed(1);
      const label = `<text x="${LEFT - 6}" y="${Number(at) + 4}" text-anchor="end">${tick.toFixed(1)} ×</text>`;
      return `<path d="M${LEFT},${at} H${WIDTH - RIGHT}" stroke="#ddd"/>${label}`;
    }),
    ...hours.map(
      (hour) => `<text x="${x(hour * 60).toFixed(1)}" y="${HEIGHT - 16}" text-anchor="middle">${hour} h</text>`,
    ),
    `<path d="${area(perMinute)}" fill="#4a7ebb"/>`,
    `<path d="${area(refusedPerMinute)}" fill="#c0504d"/>`,
    `<path d="M${LEFT},${y(meanPerMinute).toFixed(1)} H${WIDTH - RIGHT}" stroke="#222" stroke-dasharray="4 3"/>`,
    `<text x="${LEFT}" y="${HEIGHT - 3}" fill="#555">requests a minute, of the schedule's mean (dashed); red: refused</text>`,
    '</svg>',
  ];
  return `${lines.join('\n')}\n`;
}
