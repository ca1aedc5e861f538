import type { BoardReport } from '../../../control/reports.ts';
import { boardRows } from '../../../control/words/rows/board-rows.ts';
import { renderParagraph, renderRows } from '../layout.ts';
import type { Page } from '../page.ts';

export function renderBoards(boards: readonly BoardReport[], page: Page): string {
  if (boards.length === 0) return renderParagraph('No board is configured.', page);
  return renderRows(boardRows(boards, page), page);
}
