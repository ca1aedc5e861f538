import { maySharePort } from '../../mcu/settings.ts';
import type { Finding } from '../cross-check.ts';
import { findingAt } from '../file/problems.ts';
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
  tables: ValidTables,
  isSame = (one: string, other: string): boolean => one === other,
): Generator<Finding> {
  const users = portUsers(tables);
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

export function portUsers({ targets = {}, sensors = [], properties = [] }: ValidTables): readonly PortUser[] {
  return [
    ...Object.entries(targets).flatMap(([name, settings]) =>
      settings.kind === 'mcu' ? [{ owner: `targets.${name}`, path: ['targets', name, 'port'], settings }] : [],
    ),
    ...Object.entries({ sensors, properties }).flatMap(([table, entries]) =>
      entries.flatMap(({ source }, index) =>
        source.kind === 'serial' || source.kind === 'modbus-rtu'
          ? [{ owner: `${table}[${index}]`, path: [table, index, 'source', 'port'], settings: source }]
          : [],
      ),
    ),
  ];
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
