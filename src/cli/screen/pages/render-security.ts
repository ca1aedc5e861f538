import type { SecurityReport } from '../../../control/security/security-events.ts';
import { securityRows } from '../../../control/words/rows/security-rows.ts';
import { renderParagraph, renderRows } from '../layout.ts';
import type { Page } from '../page.ts';

export function renderSecurityLog(report: SecurityReport, page: Page): string {
  if (report.events.length === 0) {
    return renderParagraph('Nothing that concerned security has happened.', page, 'good');
  }
  const { forgotten } = report;
  const before = forgotten === 0 ? '' : renderParagraph(`${forgotten} before these are not kept any more.`, page);
  return before + renderRows(securityRows(report, page), page);
}
