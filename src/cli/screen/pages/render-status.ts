import type { StatusReport } from '../../../control/reports.ts';
import { statusRows } from '../../../control/words/rows/status-rows.ts';
import { renderRows } from '../layout.ts';
import type { Page } from '../page.ts';

export function renderStatus(report: StatusReport, page: Page): string {
  return renderRows(statusRows(report, page), page);
}
