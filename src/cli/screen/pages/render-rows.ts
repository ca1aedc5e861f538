import type { BoardReport } from '../../../control/api/board-report.ts';
import type { HistoryReport } from '../../../control/history.ts';
import type { OutputOf } from '../../../control/operations.ts';
import { boardRows } from '../../../control/presentation/rows/board-rows.ts';
import type { HistoryEntry } from '../../../control/presentation/rows/history-rows.ts';
import { attemptRows, describeAttempt, stepRows } from '../../../control/presentation/rows/history-rows.ts';
import { queueRows } from '../../../control/presentation/rows/queue-rows.ts';
import { securityRows } from '../../../control/presentation/rows/security-rows.ts';
import { oneSensorRows, sensorRows } from '../../../control/presentation/rows/sensor-rows.ts';
import { statusRows } from '../../../control/presentation/rows/status-rows.ts';
import type { StatusReport } from '../../../control/reports.ts';
import type { SecurityReport } from '../../../control/security/security-events.ts';
import type { SensorReport } from '../../../control/telemetry-protocol.ts';
import { renderParagraph, renderRows } from '../layout.ts';
import type { Page } from '../page.ts';

export function renderStatus(report: StatusReport, page: Page): string {
  return renderRows(statusRows(report, page), page);
}

export function renderBoards(boards: readonly BoardReport[], page: Page): string {
  if (boards.length === 0) return renderParagraph('No boards are configured.', page);
  return renderRows(boardRows(boards, page), page);
}

export function renderHistory(report: HistoryReport, page: Page): string {
  if (report.attempts.length === 0) return renderParagraph('No update attempts yet.', page);
  return renderDiscarded(report, page) + renderRows(attemptRows(report, page), page);
}

/** Renders one attempt with its steps. */
export function renderStory(told: HistoryEntry, page: Page): string {
  const rows = stepRows(told, page);
  const head = renderRows([{ label: 'Attempt', paragraphs: [told.attempt, ...describeAttempt(told, page)] }], page);
  return rows.length === 0 ? head : `${head}${renderRows(rows, page)}`;
}

export function renderSecurityLog(report: SecurityReport, page: Page): string {
  if (report.events.length === 0) {
    return renderParagraph('No security events.', page, 'good');
  }
  return renderDiscarded(report, page) + renderRows(securityRows(report, page), page);
}

/** Renders one line for each sensor: `agent sensors`. */
export function renderSensors(report: OutputOf<'sensors'>, page: Page): string {
  if (report.sensors.length === 0) {
    return renderParagraph('No sensors are configured. To find sensors: agent sensors scan KIND', page);
  }
  const unread = report.isLive ? '' : renderParagraph(unreadText, page, 'attention');
  return `${unread}${renderRows(sensorRows(report), page)}`;
}

const unreadText = 'The daemon is not running, so no values are shown. Configured sensors:';

/** Renders one sensor in detail: `agent sensors NAME`. */
export function renderSensor(sensor: SensorReport, isRead: boolean, page: Page): string {
  return renderRows(oneSensorRows(sensor, isRead), page);
}

export function renderQueue(status: OutputOf<'queue'>, page: Page): string {
  return renderRows(queueRows(status, page), page);
}

function renderDiscarded({ discarded }: HistoryReport | SecurityReport, page: Page): string {
  return discarded === 0 ? '' : renderParagraph(`${discarded} older entries were discarded.`, page);
}
