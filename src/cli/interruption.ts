/** A person or the system asked the program to end; the reason of the aborted signal. */
export class Interruption extends Error {
  override readonly name = 'Interruption';
  /** 128 and the signal's number, as shells say it. */
  readonly exitCode: number;

  constructor(signal: 'SIGINT' | 'SIGTERM') {
    super(`ended by ${signal}`);
    this.exitCode = signal === 'SIGINT' ? 130 : 143;
  }
}

/** The program ends, and what it followed goes on in the daemon. */
export class Detached extends Error {
  override readonly name = 'Detached';
}

/** The slice of node:process that interruptions come from. */
export interface InterruptibleProcess {
  on(signal: 'SIGINT' | 'SIGTERM', listener: () => void): unknown;
  off(signal: 'SIGINT' | 'SIGTERM', listener: () => void): unknown;
  exit(code: number): unknown;
}

/**
 * Turns the first SIGINT or SIGTERM into an aborted signal, so that the work ends in order; the second ends the
 * program at once. Not for `agent run`, which has its own.
 */
export function listenForInterruption(process: InterruptibleProcess): Disposable & { readonly signal: AbortSignal } {
  const controller = new AbortController();
  const interrupt = (name: 'SIGINT' | 'SIGTERM'): void => {
    const interruption = new Interruption(name);
    if (controller.signal.aborted) process.exit(interruption.exitCode);
    else controller.abort(interruption);
  };
  const onInt = (): void => interrupt('SIGINT');
  const onTerm = (): void => interrupt('SIGTERM');
  process.on('SIGINT', onInt);
  process.on('SIGTERM', onTerm);
  return {
    signal: controller.signal,
    [Symbol.dispose]: () => {
      process.off('SIGINT', onInt);
      process.off('SIGTERM', onTerm);
    },
  };
}
