import type { HistoryReport } from '../../../control/history.ts';
import type { OutputOf } from '../../../control/operations.ts';
import { boardRows } from '../../../control/presentation/rows/board-rows.ts';
import type { HistoryEntry } from '../../../control/presentation/rows/history-rows.ts';
import { attemptRows, describeAttempt, stepRows } from '../../../control/presentation/rows/history-rows.ts';
import { securityRows } from '../../../control/presentation/rows/security-rows.ts';
import { oneSensorRows, sensorRows } from '../../../control/presentation/rows/sensor-rows.ts';
import { spoolRows } from '../../../control/presentation/rows/spool-rows.ts';
import { statusRows } from '../../../control/presentation/rows/status-rows.ts';
import type { BoardReport, StatusReport } from '../../../control/reports.ts';
import type { SecurityReport } from '../../../control/security/security-events.ts';
import type { SensorReport } from '../../../control/telemetry-protocol.ts';
import { renderParagraph, renderRows } from '../layout.ts';
import type { Page } from '../page.ts';

export function renderStatus(report: StatusReport, page: Page): string {
  return renderRows(statusRows(report, page), page);
}

export function renderBoards(boards: readonly BoardReport[], page: Page): string {
  if (boards.length === 0) return renderParagraph('No board is configured.', page);
  return renderRows(boardRows(boards, page), page);
}

export function renderHistory(report: HistoryReport, page: Page): string {
  if (report.attempts.length === 0) return renderParagraph('Nothing was installed by this agent yet.', page);
  return renderForgotten(report, page) + renderRows(attemptRows(report, page), page);
}

/** Renders one attempt with its steps. */
export function renderStory(told: HistoryEntry, page: Page): string {
  const rows = stepRows(told, page);
  const head = renderRows([{ label: 'Attempt', paragraphs: [told.attempt, ...describeAttempt(told, page)] }], page);
  return rows.length === 0 ? head : `${head}${renderRows(rows, page)}`;
}

export function renderSecurityLog(report: SecurityReport, page: Page): string {
  if (report.events.length === 0) {
    return renderParagraph('Nothing that concerned security has happened.', page, 'good');
  }
  return renderForgotten(report, page) + renderRows(securityRows(report, page), page);
}

/** Renders one line for each sensor: `agent sensors`. */
export function renderSensors(report: OutputOf<'sensors'>, page: Page): string {
  if (report.sensors.length === 0) {
    return renderParagraph(
      'No source of datapoints is configured. What there is to configure: agent sensors scan KIND',
      page,
    );
  }
  const unread = report.isLive ? '' : renderParagraph(unreadText, page, 'attention');
  return `${unread}${renderRows(sensorRows(report), page)}`;
}

const unreadText = 'No daemon runs, so nothing is read. This is what is configured:';

/** Renders one sensor in detail: `agent sensors NAME`. */
export function renderSensor(sensor: SensorReport, isRead: boolean, page: Page): string {
  return renderRows(oneSensorRows(sensor, isRead), page);
}

/** Renders all that `agent queue status` shows. */
export function renderSpool(status: OutputOf<'queue'>, page: Page): string {
  return renderRows(spoolRows(status), page);
}

function renderForgotten({ discarded }: HistoryReport | SecurityReport, page: Page): string {
  return discarded === 0 ? '' : renderParagraph(`${discarded} before these are not kept any more.`, page);
}
