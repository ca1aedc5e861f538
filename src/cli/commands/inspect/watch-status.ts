import { printableJson } from '../../../system/log/printable.ts';
import type { ParsedCommand } from '../../arguments/command.ts';
import type { CliContext } from '../../context.ts';
import { pageFor } from '../../screen/page.ts';
import { renderStatus } from '../../screen/pages/render-rows.ts';
import { readStatus } from '../with-agent.ts';
import { repeat } from './repeat.ts';

/** After this number of unchanged readings, the status is printed again: only a write finds out that no one reads. */
const MAX_SILENT = 30;

/**
 * `agent status --watch`: on a terminal, redraws the status in place; elsewhere prints it again whenever more than its
 * times and counters change, and each minute. With `--json`, prints each reading on a line.
 */
export async function watchStatus({ json }: ParsedCommand, context: CliContext): Promise<number> {
  const { out, env } = context;
  const isScreen = out.isTTY && env['TERM'] !== 'dumb' && !json;
  let shown: string | undefined;
  let silent = 0;
  return repeat(context, async () => {
    const report = await readStatus(context);
    const text = json ? `${printableJson(report)}\n` : renderStatus(report, pageFor(out, context));
    if (isScreen) out.write(`${HOME_AND_CLEAR}${firstRows(text, out.rows)}`);
    else if (json) out.write(text);
    else if (shown === withoutTimes(text) && silent < MAX_SILENT) silent += 1;
    else {
      out.write(shown === undefined ? text : `\n${text}`);
      silent = 0;
    }
    shown = withoutTimes(text);
    return 'open';
  });
}

const HOME_AND_CLEAR = '\u001B[H\u001B[J';

/** Keeps the first rows on the screen, which are the most important ones. A serial console has 0 rows if it reports no size. */
function firstRows(text: string, rows = 0): string {
  return rows === 0
    ? text
    : `${text
        .split('\n')
        .slice(0, Math.max(1, rows - 1))
        .join('\n')}\n`;
}

/** Returns the rows above `Next check`, without relative times such as `(in 4 min)`. */
function withoutTimes(text: string): string {
  return (text.split('\nNext check', 1)[0] ?? '').replaceAll(/\([^)]*\)/g, '');
}
