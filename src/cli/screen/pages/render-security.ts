import { securityEventMeanings } from '../../../control/security/security-event-meanings.ts';
import type { SecurityEvent, SecurityReport } from '../../../control/security/security-events.ts';
import { renderParagraph, renderRows } from '../layout.ts';
import type { Page } from '../page.ts';

export function renderSecurityLog({ events, forgotten }: SecurityReport, page: Page): string {
  if (events.length === 0) return renderParagraph('Nothing that concerned security has happened.', page, 'good');
  const before = forgotten === 0 ? '' : renderParagraph(`${forgotten} before these are not kept any more.`, page);
  const rows = events.map((event) => ({ label: String(event.number), paragraphs: paragraphsOf(event) }));
  return before + renderRows(rows, page);
}

function paragraphsOf({ id, at, lastAt, times, detail }: SecurityEvent): readonly string[] {
  const again = times === 1 ? '' : `, ${times} times, the last ${lastAt}`;
  const meaning = Object.entries(securityEventMeanings).find(([known]) => known === id)?.[1];
  return [`${at}  ${id}${again}`, detail, ...(meaning === undefined ? [] : [meaning])];
}
