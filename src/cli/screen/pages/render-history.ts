import type { HistoryReport } from '../../../control/history.ts';
import { attemptRows, describeAttempt, stepRows } from '../../../control/words/rows/history-rows.ts';
import type { Told } from '../../../control/words/rows/history-rows.ts';
import { renderParagraph, renderRows } from '../layout.ts';
import type { Page } from '../page.ts';

export function renderHistory(report: HistoryReport, page: Page): string {
  if (report.attempts.length === 0) return renderParagraph('Nothing was installed by this agent yet.', page);
  const { forgotten } = report;
  const before = forgotten === 0 ? '' : renderParagraph(`${forgotten} before these are not kept any more.`, page);
  return before + renderRows(attemptRows(report, page), page);
}

/** Renders one attempt with its steps. */
export function renderStory(told: Told, page: Page): string {
  const rows = stepRows(told, page);
  const head = renderRows([{ label: 'Attempt', paragraphs: [told.attempt, ...describeAttempt(told, page)] }], page);
  return rows.length === 0 ? head : `${head}${renderRows(rows, page)}`;
}
