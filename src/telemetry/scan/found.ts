import type { SensorUnit } from '../sensors/unit.ts';

export const scanKinds = ['modbus', 'hwmon', 'iio', 'w1', 'serial'] as const;
export type ScanKind = (typeof scanKinds)[number];

/** Why something that is there is not, or may not be, what one wants to read. */
export type ScanProblem =
  /** Another device has the same name, and is read in its place. */
  | 'same-name'
  /** Its name cannot stand in a configuration. */
  | 'odd-name'
  | 'unreadable'
  /** The machine's own messages go there. */
  | 'console'
  /** It answers whatever unit is asked. */
  | 'any-unit';

/** Something that could be a source. Names come from outside. */
export interface Found {
  readonly title: string;
  /** As `[[sensors]]` takes it; undefined: it cannot be configured. */
  readonly sensor: ProposedSensor | undefined;
  /** As the source yields it now. */
  readonly reading: string | undefined;
  readonly unit: SensorUnit | undefined;
  readonly problem: ScanProblem | undefined;
}

export interface ProposedSensor {
  readonly event: string;
  readonly every?: string;
  readonly scale?: number;
  readonly source: Readonly<Record<string, string | number>>;
}

export interface ScanResult {
  readonly found: readonly Found[];
  /** There is more than this. */
  readonly isCut: boolean;
}

const MAX_NAME_LENGTH = 128;
const MAX_EVENT_LENGTH = 64;
/** What nobody has to escape or to guess. */
const plainName = /^[\x20-\x7e]{1,128}$/;

export function isPlainName(name: string): boolean {
  return plainName.test(name) && name.trim() === name;
}

export function titleOf(...parts: readonly string[]): string {
  return parts.map((part) => part.slice(0, MAX_NAME_LENGTH)).join(' ');
}

/** Names of events that differ: `cpu_thermal_temp1`. */
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
