import type { OutputOf } from '../../control/operations.ts';
import { sensorRows } from '../../control/presentation/rows/sensor-rows.ts';
import { shownOf } from '../live/sensor-history.ts';
import type { SensorHistory } from '../live/sensor-history.ts';
import { chart, short } from './chart.ts';
import { html } from './html.ts';
import type { Html } from './html.ts';

const MAX_SENSORS = 100;

/** Returns one card for each sensor with its last reading, its chart, and the row of the command line. */
export function sensorCards(report: OutputOf<'sensors'>, traces: SensorHistory): Html {
  const { sensors } = report;
  if (sensors.length === 0) return html`<p class="none">No source of datapoints is configured.</p>`;
  const rows = sensorRows(report);
  const cards = sensors.slice(0, MAX_SENSORS).map((sensor, index) => {
    const { name } = sensor;
    const row = rows[index];
    const { value, unit } = shownOf(sensor);
    return html`<li class="${row?.tone ?? 'plain'}">
      <h3>${name}</h3>
      ${value !== undefined && html`<p class="value">${short(value)}${unit !== undefined && html` <span>${unit}</span>`}</p>`}
      ${chart(traces.of(name), unit)} ${row?.paragraphs.map((text) => html`<p class="more">${text}</p>`)}
    </li>`;
  });
  const more = sensors.length - cards.length;
  return html`<ul class="sensors">
      ${cards}
    </ul>
    ${more > 0 && html`<p class="none">and ${more} more: agent sensors</p>`}`;
}
