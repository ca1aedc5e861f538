import type { OutputOf } from '../../../control/operations.ts';
import { spoolRows } from '../../../control/words/rows/spool-rows.ts';
import { renderRows } from '../layout.ts';
import type { Page } from '../page.ts';

/** Renders all that `agent spool status` shows. */
export function renderSpool(status: OutputOf<'spool'>, page: Page): string {
  return renderRows(spoolRows(status), page);
}
