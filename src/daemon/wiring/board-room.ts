import type { OnEvent, OperationOutcome } from '../../control/events.ts';
import type { InputOf } from '../../control/operations.ts';
import type { BoardReport } from '../../control/reports.ts';

/** What is kept of a board: what it was flashed with last, and whether a write was cut. */
export type KeptOfBoard = Omit<BoardReport, 'name' | 'port' | 'protocol' | 'connected'>;

/**
 * The boards as the daemon drives them where something is kept, in this process or behind the socket of the helper.
 * What only asks a board (`probe`, `plan`, `reset`) needs none of it.
 */
export interface BoardRoom {
  /** What is kept of each board, by its name. */
  kept(): Promise<ReadonlyMap<string, KeptOfBoard>>;
  flash(order: InputOf<'flash'>, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome>;
  restore(board: string, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome>;
  /** Finishes or undoes the writing of each board whose last write was cut. */
  heal(onEvent: OnEvent, signal: AbortSignal): Promise<void>;
}
