import type { Finding } from '../cross-check.ts';
import { findingAt } from '../file/problems.ts';
import type { ValidTables } from '../schema/schema.ts';

/** Refuses two sources on one serial port, unless both are Modbus registers on one line. A board may share the port. */
export function* serialPortConflicts(tables: Pick<ValidTables, 'sensors' | 'properties'>): Generator<Finding> {
  const users = (['sensors', 'properties'] as const).flatMap((table) =>
    (tables[table] ?? []).flatMap(({ source }, index) =>
      source.kind === 'serial' || source.kind === 'modbus-rtu' ? [{ path: [table, index], source }] : [],
    ),
  );
  for (const [number, { path, source }] of users.entries()) {
    const first = users.slice(0, number).find((user) => user.source.port === source.port);
    if (first === undefined) continue;
    const owner = `${String(first.path[0])}[${String(first.path[1])}]`;
    if (source.kind === 'serial' || first.source.kind === 'serial')
      yield findingAt(
        [...path, 'source', 'port'],
        ` is the port of ${owner}, too: one source reads a port, and its outputs name several values`,
      );
    else if (source.baud !== first.source.baud || source.parity !== first.source.parity)
      yield findingAt([...path, 'source'], `: ${owner} has another baud or parity on the same line`);
  }
}
