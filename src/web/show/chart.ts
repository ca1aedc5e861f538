import { formatDuration } from '../../control/presentation/time.ts';
import type { TracePoint } from '../live/sensor-history.ts';
import { html } from './html.ts';
import type { Html } from './html.ts';

const WIDTH = 240;
const HEIGHT = 48;
/** Space around the line, so that its edges are not cut. */
const MARGIN = 3;
const FEWEST = 3;

/** Returns a line chart without axes, with a text description, or undefined if there are too few points. */
export function chart(points: readonly TracePoint[], unit: string | undefined): Html | undefined {
  const [first, last] = [points[0], points.at(-1)];
  if (first === undefined || last === undefined || points.length < FEWEST) return undefined;
  const values = points.map(({ value }) => value);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const spanMs = Math.max(1, last.atMs - first.atMs);
  const x = ({ atMs }: TracePoint): number => MARGIN + ((atMs - first.atMs) / spanMs) * (WIDTH - 2 * MARGIN);
  const y = ({ value }: TracePoint): number => {
    const part = most === least ? 0.5 : (value - least) / (most - least);
    return HEIGHT - MARGIN - part * (HEIGHT - 2 * MARGIN);
  };
  const line = points.map((point) => `${x(point).toFixed(1)},${y(point).toFixed(1)}`).join(' ');
  const named = unit === undefined ? '' : ` ${unit}`;
  const text = `The last ${formatDuration(spanMs)}: from ${short(least)} to ${short(most)}${named}`;
  return html`<figure class="chart">
    <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${text}" preserveAspectRatio="none">
      <polyline points="${line}" vector-effect="non-scaling-stroke" />
    </svg>
    <figcaption>${text}</figcaption>
  </figure>`;
}

/** Six digits, since the rest of a reading is mostly noise. */
export function short(value: number): string {
  return String(Number(value.toPrecision(6)));
}
