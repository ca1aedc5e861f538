import { maskAddresses } from '../../system/secrets.ts';
import { TelemetryError } from '../errors.ts';

/** What a source yields: a number, a text, or an object of which outputs take parts. */
export type Reading = unknown;

/** Asked at intervals. Throws AgentError. */
export interface PolledSource {
  readonly kind: 'polled';
  read(signal: AbortSignal): Promise<Reading>;
}

/** Speaks by itself. Throws AgentError when it cannot go on, or returns when it has ended; it is begun again later. */
export interface PushedSource {
  readonly kind: 'pushed';
  run(onReading: (reading: Reading) => void, signal: AbortSignal): Promise<void>;
}

export type Source = PolledSource | PushedSource;

export function sourceFailed(what: string, why: string, cause?: unknown): TelemetryError {
  return new TelemetryError('source-failed', `${maskAddresses(what)}: ${why}`, cause);
}
