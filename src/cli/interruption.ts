/** A user or the system interrupted the program. This is the reason of the aborted signal. */
export class InterruptedError extends Error {
  override readonly name = 'InterruptedError';
  /** 128 plus the number of the signal, as in a shell. */
  readonly exitCode: number;

  constructor(signal: 'SIGINT' | 'SIGTERM') {
    super(`ended by ${signal}`);
    this.exitCode = signal === 'SIGINT' ? 130 : 143;
  }
}

/** The program ends, while the operation that it followed continues in the daemon. */
export class DetachedError extends Error {
  override readonly name = 'DetachedError';
}

/** This process ends and leaves a board partially flashed, which may have no program to run. */
export class PartialFlashError extends Error {
  override readonly name = 'PartialFlashError';
  readonly boards: readonly string[];
  readonly advice: string;

  constructor(boards: readonly string[], advice: string) {
    super(`${boards.join(', ')} partially flashed`);
    this.boards = boards;
    this.advice = advice;
  }
}

/** The part of node:process that delivers interruptions. */
export interface InterruptibleProcess {
  on(signal: 'SIGINT' | 'SIGTERM', listener: () => void): unknown;
  off(signal: 'SIGINT' | 'SIGTERM', listener: () => void): unknown;
  exit(code: number): unknown;
}

export interface Interruptible extends Disposable {
  readonly signal: AbortSignal;
  /**
   * Until it is disposed, `asksInstead` is called at Ctrl-C. It returns true if it asked the user to press again; the
   * signal is then not aborted.
   */
  guard(asksInstead: () => boolean): Disposable;
}

/**
 * Turns the first SIGINT or SIGTERM into an aborted signal, so that the work ends cleanly; the second one ends the
 * program immediately. `agent run` has its own signal handling.
 */
export function listenForInterruption(process: InterruptibleProcess): Interruptible {
  const controller = new AbortController();
  let asksInstead = (): boolean => false;
  const interrupt = (name: 'SIGINT' | 'SIGTERM'): void => {
    const interruption = new InterruptedError(name);
    if (controller.signal.aborted) process.exit(interruption.exitCode);
    else if (name === 'SIGTERM' || !asksInstead()) controller.abort(interruption);
  };
  const onInt = (): void => interrupt('SIGINT');
  const onTerm = (): void => interrupt('SIGTERM');
  process.on('SIGINT', onInt);
  process.on('SIGTERM', onTerm);
  return {
    signal: controller.signal,
    guard: (asks) => {
      asksInstead = asks;
      return { [Symbol.dispose]: () => (asksInstead = () => false) };
    },
    [Symbol.dispose]: () => {
      process.off('SIGINT', onInt);
      process.off('SIGTERM', onTerm);
    },
  };
}
