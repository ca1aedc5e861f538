import type { When } from '../../control/words/time.ts';
import type { CliContext, TextOutput } from '../context.ts';
import { paintFor, type Paint } from './paint.ts';

/** How a page is shown, and when. */
export interface Page extends When {
  readonly columns: number;
  readonly paint: Paint;
}

/** Narrower ones are shown as if they had so many columns. */
const minColumns = 40;
/** Of a terminal that does not tell. */
const defaultColumns = 80;
/** Longer lines are hard to read. */
const maxColumns = 100;
/** What is no terminal is read by programs, too: nothing is wrapped, and nothing that one copies is cut. */
const unwrapped = 10_000;

export function pageFor(output: TextOutput, { clock, env, localOffset }: CliContext): Page {
  const columns =
    output.columns === undefined
      ? unwrapped
      : Math.max(minColumns, Math.min(maxColumns, output.columns || defaultColumns));
  return { columns, paint: paintFor(output, env), nowMs: clock.nowMs(), localOffset };
}
