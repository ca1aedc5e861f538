import type { CliContext, TextOutput } from '../context.ts';
import { paintFor, type Paint } from './paint.ts';
import type { OffsetMinutes } from './time.ts';

/** How a page is shown, and when. */
export interface Page {
  readonly columns: number;
  readonly paint: Paint;
  readonly nowMs: number;
  readonly localOffset: OffsetMinutes;
}

/** Narrower ones are shown as if they had so many columns. */
export const minColumns = 40;
const defaultColumns = 80;
/** Longer lines are hard to read. */
const maxColumns = 100;

export function pageFor(output: TextOutput, { clock, env, localOffset }: CliContext): Page {
  const columns = Math.max(minColumns, Math.min(maxColumns, output.columns || defaultColumns));
  return { columns, paint: paintFor(output, env), nowMs: clock.nowMs(), localOffset };
}
