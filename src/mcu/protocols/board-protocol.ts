import type * as z from 'zod';

import type { Settings } from '../../system/settings/settings.ts';
import type { Protocol } from '../protocol.ts';
import type { Reset } from '../reset.ts';

/** The properties of the board for every protocol. */
export interface BoardLine {
  readonly baud: number;
  readonly reset: Reset;
}

/** A protocol as it describes itself to the configuration and to createBoard. It is listed in protocols.ts. */
export interface BoardProtocol<Name extends string, Shape extends z.ZodRawShape> {
  readonly name: Name;
  /** The protocol's own settings in `[targets.NAME]`; several protocols may share one. */
  readonly settings: Shape;
  /** Loads the protocol, which reading a configuration does not. */
  readonly create: (settings: Settings<z.output<z.ZodObject<Shape>>> & BoardLine) => Promise<Protocol>;
}

export function boardProtocol<Name extends string, Shape extends z.ZodRawShape>(
  described: BoardProtocol<Name, Shape>,
): BoardProtocol<Name, Shape> {
  return described;
}
