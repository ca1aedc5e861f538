import { SerialError } from '../serial/errors.ts';
import type { Line, OpenLine } from '../serial/line.ts';
import type { Log } from '../system/log/log.ts';
import type { Clock } from '../system/time/clock.ts';
import { Deadline } from '../system/time/deadline.ts';
import { Converser } from './converse.ts';
import { isBoardError, McuError } from './errors.ts';
import type { Conversation, Protocol, Session } from './protocol.ts';
import { enterBootloader, leaveBootloader } from './reset.ts';
import type { Reset } from './reset.ts';

/** A board of the configuration, and how to reach it. */
export interface Board {
  /** The name of the target. */
  readonly name: string;
  readonly protocol: Protocol;
  readonly baud: number;
  readonly reset: Reset;
  readonly openLine: OpenLine;
  readonly clock: Clock;
  readonly log: Log;
}

/** A turn fails after this number of failures without one success between them. */
const maxFailures = 12;
/** After this number of failures the bootloader is reset, since it may have received wrong bytes at the beginning. */
const failuresBeforeReset = 5;
/** A connection fails after this number of resets in a row without an answer. */
const maxResets = 5;
/** A port may disappear for this time before it counts as unplugged. */
const unpluggedMs = 30_000;
const replugPollMs = 250;
const letGoMs = 1_000;
const never = new AbortController().signal;
/**
 * The interval and the limit for queries of an application after its start: its bootloader may swap two slots first.
 */
const restartPollMs = 3_000;
const restartMs = 180_000;

interface Open {
  readonly line: Line;
  readonly converser: Converser;
}

/**
 * Keeps a connection to a bootloader. A turn that fails is repeated: after the bootloader is in step again, else after
 * a reset, else after the port has returned. So every conversation given to `run` must be harmless to repeat.
 */
export class Connection implements AsyncDisposable {
  readonly board: Board;
  /** True while the chip's memory may be a mixture of two programs. */
  isWriting = false;
  /** Called when a lost port has returned, before the turn is repeated: a board of the same kind may be another one. */
  onReturn: ((signal: AbortSignal) => Promise<void>) | undefined;
  #open: Open | undefined;
  #session: Session | undefined;
  #chipId: string | undefined;
  #failuresInARow = 0;
  /** The number of turns that had to be repeated. */
  failures = 0;
  resets = 0;

  constructor(board: Board) {
    this.board = board;
  }

  /** Opens the port, which must exist, and connects to the bootloader. */
  static async to(board: Board, signal: AbortSignal): Promise<Connection> {
    const connection = new Connection(board);
    try {
      await connection.#line(signal);
      await connection.#reconnect(signal);
      return connection;
    } catch (error) {
      await connection.#letGo();
      await connection[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Starts the application by the modem lines: the board may be in a bootloader that was not understood. */
  async #letGo(): Promise<void> {
    if (this.#open === undefined) return;
    using deadline = new Deadline(letGoMs, () => new McuError('board-timeout', 'the port did not respond'), never);
    try {
      await leaveBootloader(this.#open.line, this.board, deadline.signal);
    } catch (error) {
      if (!isBoardError(error)) throw error;
    }
  }

  /** The present session; each reset begins another one. */
  get session(): Session {
    if (this.#session === undefined) throw new McuError('board-timeout', 'the bootloader was left');
    return this.#session;
  }

  get roundTripMs(): number | undefined {
    return this.#open?.converser.pace.roundTripMs;
  }

  /** Runs a turn until it succeeds. Fails after many failures in a row, or after one that repeating cannot fix. */
  async run<T>(turn: (session: Session) => Conversation<T>, signal: AbortSignal): Promise<T> {
    for (;;) {
      try {
        const result = await this.#converse(turn(this.session), signal);
        this.#failuresInARow = 0;
        return result;
      } catch (error) {
        const open = this.#open;
        await this.#recover(error, signal);
        const failures = this.#failuresInARow;
        if (this.#open !== open) await this.onReturn?.(signal);
        this.#failuresInARow = failures; // the turns that it runs do not count
      }
    }
  }

  /** Starts the application. The connection cannot be used afterwards. */
  async leave(signal: AbortSignal): Promise<void> {
    const { line, converser } = await this.#line(signal);
    const { requireLeft } = this.board.protocol;
    if (!(await leaveBootloader(line, this.board, signal))) await this.run((session) => session.start(), signal);
    else if (requireLeft !== undefined) await converser.converse(requireLeft(), signal);
    this.#session = undefined;
  }

  /** Starts the application, and connects to the server in it. No reset line is used: that would start it again. */
  async restart(signal: AbortSignal): Promise<void> {
    await this.run((session) => session.start(), signal);
    const { clock } = this.board;
    const endMs = clock.monotonicMs() + restartMs;
    for (;;) {
      await clock.sleep(restartPollMs, signal);
      try {
        await this.#patiently(async () => this.#adopt(await this.#converseFirst(signal)), signal);
        return;
      } catch (error) {
        if (!isBoardError(error) || error.remedy === 'give-up' || clock.monotonicMs() >= endMs) throw error;
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const open = this.#open;
    this.#open = undefined;
    this.#session = undefined;
    await open?.line[Symbol.asyncDispose]();
  }

  async #converse<T>(conversation: Conversation<T>, signal: AbortSignal): Promise<T> {
    if (this.#open === undefined) throw new SerialError('port-disconnected', 'the port is closed');
    return this.#open.converser.converse(conversation, signal);
  }

  async #recover(error: unknown, signal: AbortSignal): Promise<void> {
    if (!isBoardError(error) || error.remedy === 'give-up') throw error;
    this.failures += 1;
    this.#failuresInARow += 1;
    if (this.#failuresInARow > maxFailures) throw error;
    this.board.log.debug({ board: this.board.name, code: error.code, failures: this.failures }, error.message);
    if (isPortError(error) || this.#failuresInARow % failuresBeforeReset === 0) return this.#reconnect(signal);
    try {
      await this.#converse(this.session.resume(), signal);
    } catch (second) {
      if (!isBoardError(second) || second.remedy === 'give-up') throw second;
      await this.#reconnect(signal);
    }
  }

  /** Connects again to a board whose port may be missing for a while. */
  async #reconnect(signal: AbortSignal): Promise<void> {
    await this.#patiently(async () => this.#connect(signal), signal);
  }

  async #patiently(action: () => Promise<unknown>, signal: AbortSignal): Promise<void> {
    const endMs = this.board.clock.monotonicMs() + unpluggedMs;
    for (;;) {
      try {
        await action();
        return;
      } catch (error) {
        if (!isPortError(error) || error.remedy === 'give-up' || this.board.clock.monotonicMs() >= endMs) throw error;
        await this[Symbol.asyncDispose]();
      }
      await this.board.clock.sleep(replugPollMs, signal);
    }
  }

  async #connect(signal: AbortSignal): Promise<void> {
    let failure: unknown;
    for (let attempt = 0; attempt < maxResets; attempt += 1) {
      try {
        this.#adopt(await this.#connectOnce(signal));
        return;
      } catch (error) {
        if (!isBoardError(error) || error.remedy === 'give-up' || isPortError(error)) throw error;
        failure = error;
      }
    }
    throw failure;
  }

  async #connectOnce(signal: AbortSignal): Promise<Session> {
    this.resets += 1;
    const { line } = await this.#line(signal);
    const effect = await enterBootloader(line, this.board, signal);
    if (effect === 'reopen') {
      await this[Symbol.asyncDispose]();
      await this.#patiently(async () => this.#line(signal), signal);
    }
    try {
      return await this.#converseFirst(signal);
    } catch (error) {
      if (effect !== 'no-modem-lines' || !isBoardError(error) || error.code !== 'board-timeout') throw error;
      throw new McuError('board-timeout', `${error.message}, and its port has no line to reset it`, {
        advice: 'set `reset` of this target to a command that resets the board',
        cause: error,
      });
    }
  }

  async #converseFirst(signal: AbortSignal): Promise<Session> {
    const { converser } = await this.#line(signal);
    await converser.changeBaud(this.board.baud, signal);
    return converser.converse(this.board.protocol.connect(), signal);
  }

  async #line(signal: AbortSignal): Promise<Open> {
    if (this.#open === undefined) {
      const { baud, protocol, clock, openLine } = this.board;
      const line = await openLine({ baud, parity: protocol.parity }, signal);
      this.#open = { line, converser: new Converser(line, clock) };
    }
    return this.#open;
  }

  #adopt(session: Session): void {
    const { chip } = session;
    if (this.#chipId !== undefined && this.#chipId !== chip.id) {
      throw new McuError('board-changed', `${chip.name} answers where another chip was being flashed`);
    }
    this.#chipId = chip.id;
    this.#session = session;
  }
}

function isPortError(error: unknown): error is SerialError {
  return error instanceof SerialError;
}
