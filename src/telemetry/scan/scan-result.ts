import type { SensorUnit } from '../../control/telemetry-protocol.ts';
import type { LineSettings } from '../../serial/line.ts';

/** The place to scan for sensors: a class of the kernel's devices, or the units of a Modbus line that the operator names. */
export type ScanOrder = { readonly kind: 'hwmon' | 'thermal' | 'iio' | 'w1' | 'serial' } | ModbusPlace;

export type ModbusPlace =
  | { readonly kind: 'modbus-tcp'; readonly host: string; readonly port: number }
  | ({ readonly kind: 'modbus-rtu'; readonly port: string } & LineSettings);

/** Called after the request to each Modbus unit. */
export type OnProbe = (unit: number, answering: number) => void;

/** The reason why a candidate cannot be read, or is perhaps not a sensor. */
export type ScanProblem =
  /** Another device has the same name, and no label or address tells them apart. */
  | 'same-name'
  /** Its name is not allowed in a configuration. */
  | 'odd-name'
  | 'unreadable'
  /** The machine's own messages are printed there. */
  | 'console'
  /** The device answers for every unit. */
  | 'any-unit';

/** Something that could be a source. Its names come from outside. */
export interface ScanCandidate {
  readonly title: string;
  /** The table for `[[sensors]]`. Omitted if it cannot be configured. */
  readonly sensor: ProposedSensor | undefined;
  /** The value that would be sent now. */
  readonly reading: string | undefined;
  /** The reading of the source with its unit, if it differs. */
  readonly raw?: string | undefined;
  readonly unit: SensorUnit | undefined;
  readonly problem: ScanProblem | undefined;
  /** The reason why the source cannot be read. */
  readonly why?: string | undefined;
}

export interface ProposedSensor {
  readonly event: string;
  readonly every?: string;
  readonly scale?: number;
  readonly source: Readonly<Record<string, string | number>>;
}

export interface ScanResult {
  readonly found: readonly ScanCandidate[];
  /** True if more was found than is listed. */
  readonly isCut: boolean;
}

const MAX_NAME_LENGTH = 128;
const MAX_EVENT_LENGTH = 64;
/** Names that need no escapes and no guessing. */
const plainName = /^[\x20-\x7e]{1,128}$/;

export function isPlainName(name: string): boolean {
  return plainName.test(name) && name.trim() === name;
}

export function titleOf(...parts: readonly string[]): string {
  return parts.map((part) => part.slice(0, MAX_NAME_LENGTH)).join(' ');
}

/** Makes distinct names of events: `cpu_thermal_temp1`. */
export class EventNames {
  readonly #given = new Set<string>();

  of(...parts: readonly string[]): string {
    const words = parts
      .join('_')
      .slice(0, 1_024)
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '_');
    const base = words.slice(0, MAX_EVENT_LENGTH).replaceAll(/^_|_$/g, '') || 'sensor';
    let name = base;
    for (let number = 2; this.#given.has(name); number += 1) name = `${base}_${number}`;
    this.#given.add(name);
    return name;
  }
}
