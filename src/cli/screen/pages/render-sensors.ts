import type { OutputOf } from '../../../control/operations.ts';
import type { SensorReport } from '../../../control/telemetry-protocol.ts';
import { oneSensorRows, sensorRows } from '../../../control/words/rows/sensor-rows.ts';
import { renderParagraph, renderRows } from '../layout.ts';
import type { Page } from '../page.ts';

/** Renders one line for each sensor: `agent sensors`. */
export function renderSensors(report: OutputOf<'sensors'>, page: Page): string {
  if (report.sensors.length === 0) {
    return renderParagraph(
      'No source of datapoints is configured. What there is to configure: agent sensors scan KIND',
      page,
    );
  }
  const unread = report.isRead ? '' : renderParagraph(unreadText, page, 'attention');
  return `${unread}${renderRows(sensorRows(report), page)}`;
}

const unreadText = 'No daemon runs, so nothing is read. This is what is configured:';

/** Renders one sensor in detail: `agent sensors NAME`. */
export function renderSensor(sensor: SensorReport, isRead: boolean, page: Page): string {
  return renderRows(oneSensorRows(sensor, isRead), page);
}
