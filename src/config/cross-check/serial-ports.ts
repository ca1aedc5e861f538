import type * as z from 'zod';

import { maySharePort } from '../../mcu/settings.ts';
import { isNest } from '../../system/json-value.ts';
import { parsedOnce } from '../../system/settings/settings.ts';
import { sensorSchema } from '../../telemetry/settings.ts';
import type { Finding } from '../cross-check.ts';
import { findingAt } from '../file/problems.ts';
import { targetSchema } from '../schema/schema.ts';
import type { ConfigFile, ValidTables } from '../schema/schema.ts';

type Board = Extract<ConfigFile['targets'][string], { kind: 'mcu' }>;
type Source = Extract<ConfigFile['sensors'][number]['source'], { kind: 'serial' | 'modbus-rtu' }>;

/** A user of a serial port: a board, or a source of measurements. */
interface PortUser {
  readonly owner: string;
  readonly path: readonly PropertyKey[];
  readonly settings: Board | Source;
}

/** Refuses users of one serial port that would take each other's bytes. A board and a source take turns. */
export function* serialPortConflicts(
  users: readonly PortUser[],
  isSame = (one: string, other: string): boolean => one === other,
): Generator<Finding> {
  for (const [index, { path, settings }] of users.entries()) {
    for (const other of users.slice(0, index)) {
      const { port } = other.settings;
      const why = isSame(settings.port, port) ? whyNotShared(settings, other.settings) : undefined;
      if (why === undefined) continue;
      const name = port === settings.port ? '' : `, under the name ${port}`;
      yield findingAt(path, ` is the port of ${other.owner}, too${name}: ${why}`);
      break;
    }
  }
}

type Input = Readonly<Record<string, unknown>>;

/** Returns the boards and sources that are correct in themselves, even if other settings of their table are not. */
export function portUsers(input: Input, tables: Partial<ValidTables> = {}): readonly PortUser[] {
  const targets = Object.entries(tables.targets ?? partsOf(input['targets'], (target) => target, targetSchema));
  const lists = (['sensors', 'properties'] as const).map((name) => {
    const valid = tables[name]?.map(({ source }) => source);
    return [name, Object.entries(valid ?? partsOf(input[name], sourceIn, sensorSchema.shape.source))] as const;
  });
  return [
    ...targets.flatMap(([name, settings]) =>
      settings?.kind === 'mcu' ? [{ owner: `targets.${name}`, path: ['targets', name, 'port'], settings }] : [],
    ),
    ...lists.flatMap(([table, sources]) =>
      sources.flatMap(([index, settings]) =>
        settings?.kind === 'serial' || settings?.kind === 'modbus-rtu'
          ? [{ owner: `${table}[${index}]`, path: [table, Number(index), 'source', 'port'], settings }]
          : [],
      ),
    ),
  ];
}

function sourceIn(sensor: unknown): unknown {
  return isNest(sensor) && 'source' in sensor ? sensor.source : undefined;
}

/** Parses a part of each entry of a table or list. */
function partsOf<T extends z.ZodType>(entries: unknown, part: (entry: unknown) => unknown, schema: T) {
  const all = isNest(entries) ? Object.entries(entries) : [];
  return Object.fromEntries(all.map(([key, entry]) => [key, schema.safeParse(part(entry), parsedOnce).data]));
}

function whyNotShared(one: PortUser['settings'], other: PortUser['settings']): string | undefined {
  if (one.kind === 'mcu' && other.kind === 'mcu')
    return maySharePort(one, other)
      ? undefined
      : 'two boards share a port only as two images of an SMP server, or if a reset command of each selects it';
  if (one.kind === 'mcu' || other.kind === 'mcu') return undefined;
  if (one.kind === 'serial' || other.kind === 'serial')
    return 'one source reads a port, and its outputs name several values';
  const isAlike = one.baud === other.baud && one.parity === other.parity;
  return isAlike ? undefined : 'all units on a line have the same baud and parity';
}
