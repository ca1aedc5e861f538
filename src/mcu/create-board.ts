import type { OpenPort } from '../serial/line.ts';
import type { Log } from '../system/log/log.ts';
import { withName } from '../system/settings/described.ts';
import type { Clock } from '../system/time/clock.ts';
import type { Board } from './connection.ts';
import { flash } from './flash/flash.ts';
import type { FlashReport, FlashRequest } from './flash/flash.ts';
import { protocols } from './protocols/protocols.ts';
import type { BoardSettings } from './settings.ts';

export interface BoardDeps {
  readonly clock: Clock;
  readonly log: Log;
  /** Undefined: the serial driver's own. */
  readonly openPort?: OpenPort | undefined;
}

/** Makes a configured board, with its protocol. Its port is opened, and the serial driver loaded, only when needed. */
export async function createBoard(settings: BoardSettings, deps: BoardDeps): Promise<Board> {
  const { name, port, baud, reset } = settings;
  const { clock, log, openPort = openSerialPort } = deps;
  return {
    name,
    protocol: await withName(protocols, settings.protocol).create(settings),
    baud,
    reset,
    openLine: async (line, signal) => openPort(port, line, signal),
    clock,
    log,
  };
}

/** A board as its folder knows it. Its line may be in another process. */
export interface FlashableBoard extends Pick<Board, 'name' | 'log'> {
  readonly clock: Pick<Clock, 'nowMs'>;
  /** Brings an image onto the board. */
  readonly flash: (request: FlashRequest, signal: AbortSignal) => Promise<FlashFacts>;
}

/** What is remembered of a flash that succeeded. */
export type FlashFacts = Pick<FlashReport, 'imageDigest' | 'unitsWritten' | 'repeated' | 'roundTripMs'> & {
  readonly chip: Pick<FlashReport['chip'], 'name'>;
};

/** A board whose line is in this process. */
export function flashable(board: Board): FlashableBoard {
  const { name, clock, log } = board;
  return { name, clock, log, flash: async (request, signal) => flash(request, board, signal) };
}

const openSerialPort: OpenPort = async (...port) => (await import('../serial/serial-line.ts')).openSerialLine(...port);
