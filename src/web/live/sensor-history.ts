import type { OutputOf } from '../../control/operations.ts';

/** A number that a sensor read, and when. */
export interface TracePoint {
  readonly atMs: number;
  readonly value: number;
}

const MAX_POINTS = 120;
const MAX_SENSORS = 200;
/** Ages are rounded: two times that differ by less than this belong to the same reading. */
const SAME_MS = 1_000;

/** The last numbers of each sensor that the page saw, bounded and in memory. */
export class SensorHistory {
  readonly #points = new Map<string, readonly TracePoint[]>();

  of(name: string): readonly TracePoint[] {
    return this.#points.get(name) ?? [];
  }

  note({ sensors }: OutputOf<'sensors'>, nowMs: number): void {
    const names = new Set(sensors.map(({ name }) => name));
    for (const name of this.#points.keys()) if (!names.has(name)) this.#points.delete(name);
    for (const sensor of sensors) {
      const { name, lastReadingAgeMs } = sensor;
      const { value } = shownOf(sensor);
      if (value === undefined || lastReadingAgeMs === undefined) continue;
      const before = this.of(name);
      if (before.length === 0 && this.#points.size >= MAX_SENSORS) continue;
      const atMs = nowMs - lastReadingAgeMs;
      const last = before.at(-1);
      if (last !== undefined && atMs - last.atMs < SAME_MS && atMs - last.atMs > -SAME_MS) continue;
      this.#points.set(name, [...before, { atMs, value }].slice(-MAX_POINTS));
    }
  }
}

type Sensor = OutputOf<'sensors'>['sensors'][number];

/** Returns the number that is shown of a sensor: what its first output sends. */
export function shownOf({ outputs, lastReading, unit }: Sensor): { value: number | undefined; unit: Sensor['unit'] } {
  const [output = { value: lastReading, unit }] = outputs;
  return { value: numberOf(output.value), unit: output.unit };
}

/** Returns the number in a reading, which is JSON, or undefined if it is not a number. */
export function numberOf(reading: string | undefined): number | undefined {
  if (reading === undefined || !/^-?\d/.test(reading)) return undefined;
  const value = Number(reading);
  return Number.isFinite(value) ? value : undefined;
}
