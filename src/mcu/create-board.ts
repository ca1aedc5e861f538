import type { OpenPort } from '../serial/line.ts';
import type { Log } from '../system/log/log.ts';
import { withName } from '../system/settings/described.ts';
import type { Clock } from '../system/time/clock.ts';
import type { Board } from './connection.ts';
import { requireOwnPort } from './own-port.ts';
import { protocols } from './protocols/protocols.ts';
import type { BoardSettings } from './settings.ts';

export interface BoardDeps {
  readonly clock: Clock;
  readonly log: Log;
  /** If omitted, the serial driver's own. */
  readonly openPort?: OpenPort | undefined;
  /** The boards of the configuration, with which this one may not share a port. */
  readonly boards?: readonly BoardSettings[];
}

/** Makes a configured board, with its protocol. Its port is opened, and the serial driver loaded, only when needed. */
export async function createBoard(settings: BoardSettings, deps: BoardDeps): Promise<Board> {
  const { name, port, baud, reset } = settings;
  const { clock, log, openPort = openSerialPort, boards = [] } = deps;
  return {
    name,
    protocol: await withName(protocols, settings.protocol).create(settings),
    baud,
    reset,
    openLine: async (line, signal) => {
      await requireOwnPort(settings, boards);
      return openPort(port, line, signal);
    },
    clock,
    log,
  };
}

const openSerialPort: OpenPort = async (...port) => (await import('../serial/serial-line.ts')).openSerialLine(...port);
