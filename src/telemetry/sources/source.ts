import { maskAddresses } from '../../system/log/secrets.ts';
import { TelemetryError } from '../errors.ts';

/** What a source yields: a number, a text, or an object of which outputs take parts. */
export type Reading = unknown;

/** Asked at intervals. Throws AgentError. */
export interface PolledSource {
  readonly kind: 'polled';
  read(signal: AbortSignal): Promise<Reading>;
}

/** Where a source that speaks by itself puts what it hears. */
export interface Intake {
  /**
   * One more. `read` makes the reading; it is not called for one that comes too fast, and what it finds unusable is left
   * out. Throws what else `read` throws.
   */
  take(read: () => Reading): void;
  /** Something came of which there is no reading. */
  drop(why: string): void;
  /** So many bytes came. A promise: the next are to be read when it has resolved; it never rejects. */
  rest(bytes: number): Promise<void> | undefined;
}

/**
 * Speaks by itself. Throws AgentError when it cannot go on, or returns when it has ended; it is begun again later. It reads
 * no further than `rest` permits, so that who speaks too fast waits, and no exception leaves it but by this promise.
 */
export interface PushedSource {
  readonly kind: 'pushed';
  run(intake: Intake, signal: AbortSignal): Promise<void>;
}

export type Source = PolledSource | PushedSource;

export function sourceFailed(what: string, why: string, cause?: unknown): TelemetryError {
  return new TelemetryError('source-failed', `${maskAddresses(what)}: ${why}`, cause);
}
