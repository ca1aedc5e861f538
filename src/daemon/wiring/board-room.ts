import type { OnEvent, OperationOutcome } from '../../control/events.ts';
import type { InputOf } from '../../control/operations.ts';
import type { BoardReport } from '../../control/reports.ts';
import type { FirmwareSource } from '../../update/ports.ts';

/** What is kept of a board: what it was flashed with last, and whether a write was cut. */
export type KeptOfBoard = Omit<BoardReport, 'name' | 'port' | 'protocol' | 'connected'>;

/** A file that a person brings for a board. */
export interface BoardFile {
  readonly name: string;
  readonly read: () => Promise<Uint8Array>;
  /** The same for another process, which may not open it. */
  readonly source: FirmwareSource;
}

/**
 * The boards as the daemon drives them where something is kept, in this process or behind the socket of the helper.
 * What only asks a board (`probe`, `plan`, `reset`) needs none of it.
 */
export interface BoardRoom {
  /** What is kept of each board, by its name. */
  kept(): Promise<ReadonlyMap<string, KeptOfBoard>>;
  flash(
    order: Omit<InputOf<'flash'>, 'path'>,
    file: BoardFile,
    onEvent: OnEvent,
    signal: AbortSignal,
  ): Promise<OperationOutcome>;
  restore(board: string, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome>;
  /** Finishes or undoes the writing of each board whose last write was cut. */
  heal(onEvent: OnEvent, signal: AbortSignal): Promise<void>;
}
