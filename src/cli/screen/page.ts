import type { When } from '../../control/presentation/time.ts';
import type { CliContext, TextOutput } from '../context.ts';
import { styleFor, type Style } from './style.ts';

/** The width and colors of a page, and the time at which it is read. */
export interface Page extends When {
  readonly columns: number;
  readonly paint: Style;
}

/** A narrower terminal is treated as if it had this width. */
const minColumns = 40;
/** The width of a terminal that does not report its own. */
const defaultColumns = 80;
/** The text is not wider than this, since longer lines are hard to read. */
const maxColumns = 100;
/** The width without a terminal: programs read the output, so nothing is wrapped or truncated. */
const unwrapped = 10_000;

export function pageFor(output: TextOutput, { clock, env, localOffset }: CliContext): Page {
  const columns =
    output.columns === undefined
      ? unwrapped
      : Math.max(minColumns, Math.min(maxColumns, output.columns || defaultColumns));
  return { columns, paint: styleFor(output, env), nowMs: clock.nowMs(), localOffset };
}
