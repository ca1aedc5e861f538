import type { OutputOf } from '../../control/operations.ts';
import { pluralize } from '../../control/presentation/counted.ts';
import { silence } from '../../control/presentation/rows/sensor-rows.ts';
import { formatDuration } from '../../control/presentation/time.ts';
import type { DoctorFinding } from '../../control/reports.ts';
import { SerialError } from '../../serial/errors.ts';
import type { ErrorMeaning } from '../../system/define-errors.ts';
import { SystemError } from '../../system/system-errors.ts';
import { TelemetryError } from '../../telemetry/errors.ts';

type Measuring = Pick<OutputOf<'queue'>, 'spool' | 'watches'>;
type Sensor = OutputOf<'sensors'>['sensors'][number];

/**
 * The findings about measurements, which only a daemon has. A service that cannot be reached has a finding of its own.
 * Pure.
 */
export function telemetryFindings(
  measuring: Measuring | undefined,
  { sensors, isLive }: OutputOf<'sensors'>,
): readonly DoctorFinding[] {
  if (measuring === undefined || !isLive) return [];
  const watches = measuring.watches.flatMap(({ id, lastError }) =>
    lastError === undefined ? [] : [`${id}: ${lastError}`],
  );
  return [
    ...sensors.map(findingOf),
    ...watches.map((detail) => ({ name: 'watch', ok: false, detail, advice: 'see [[watch]] in the configuration' })),
    queueFinding(measuring.spool),
  ];
}

const meanings: Readonly<Record<string, ErrorMeaning>> = {
  ...SystemError.meanings,
  ...SerialError.meanings,
  ...TelemetryError.meanings,
};

function adviceOf(code = ''): string | undefined {
  return meanings[code]?.advice;
}

function findingOf(sensor: Sensor): DoctorFinding {
  const { name, state, lastError, lastErrorCode, failingForMs, lastReadingAgeMs, dropped, lastDrop, notice } = sensor;
  const drops = dropped === 0 ? '' : `; ${dropped} dropped, the last: ${lastDrop ?? 'unknown'}`;
  const since = failingForMs === undefined ? '' : ` for ${formatDuration(failingForMs)}`;
  const advice = `agent sensors '${name}'`;
  if (state === 'delivering') {
    return { name, ok: false, detail: `no usable reading${since}${drops}`, advice };
  }
  if (lastError === undefined) {
    const read = lastReadingAgeMs === undefined ? 'no reading yet' : `read ${formatDuration(lastReadingAgeMs)} ago`;
    const age = silence(sensor) ?? read;
    return { name, ok: true, detail: `${age}${drops}${notice === undefined ? '' : `; ${notice}`}` };
  }
  const code = lastErrorCode === undefined ? '' : ` (${lastErrorCode})`;
  return {
    name,
    ok: false,
    detail: `${lastError}${code}${since && `,${since}`}${drops}`,
    advice: adviceOf(lastErrorCode) ?? advice,
  };
}

function queueFinding({ error, pointsOnDisk, oldestAgeMs, dropped }: Measuring['spool']): DoctorFinding {
  const lost = Object.values(dropped).reduce((sum, count) => sum + count, 0);
  const oldest = oldestAgeMs === undefined ? '' : `, the oldest for ${formatDuration(oldestAgeMs)}`;
  const detail = `${pluralize(pointsOnDisk, 'datapoint')} on disk${oldest}; ${lost} dropped`;
  if (error === undefined) return { name: 'queue', ok: true, detail };
  return { name: 'queue', ok: false, detail: error, advice: 'agent queue status' };
}
