import type { RetryPolicy } from '../../system/time/retry.ts';
import type { TlsFiles } from '../../system/tls-files.ts';
import type { ServiceMessagingSettings } from '../settings.ts';

/** How the service is reached in messaging form, from `[service.messaging]`. */
export interface MessagingSettings extends Omit<
  ServiceMessagingSettings,
  'firmwareTransport' | 'requestTimeoutMs' | 'tls'
> {
  readonly clientId: string;
  readonly tls: TlsFiles;
  readonly deadlines: MessagingDeadlines;
  /** The pauses between two attempts to connect, which never end. */
  readonly reconnect: Pick<RetryPolicy, 'firstDelayMs' | 'maxDelayMs'>;
  /** Published in the status topic. */
  readonly serialNumber: string;
  readonly agentVersion: string;
}

/** Invariant 6: deadlines in milliseconds. */
export interface MessagingDeadlines {
  /** From the attempt to connect until the broker has accepted us and our subscriptions. */
  readonly connectMs: number;
  /** From a request to its reply, or to more of a large message. */
  readonly requestMs: number;
  /** The same if the broker reported no subscriber to the request's topic; a broker may be wrong about that. */
  readonly unheardMs: number;
  /** For a whole call, including everything else that arrives in this time. */
  readonly totalMs: number;
  /** For a whole firmware image. */
  readonly transferMs: number;
}

export const defaultUnheardMs = 5_000;

export const defaultReconnect: MessagingSettings['reconnect'] = { firstDelayMs: 1_000, maxDelayMs: 120_000 };

/** A connection that lasted this long was a good one: earlier failures no longer count. */
export const STABLE_MS = 60_000;

/** The most requests that wait for a reply; the agent makes one or two. */
export const MAX_PENDING_REQUESTS = 8;

/** The bytes of a reply around its result, so that a text of the largest size still fits. */
export const ENVELOPE_BYTES = 4096;

/** The bound for a reply other than encoded firmware. */
export const MAX_REPLY_BYTES = 1024 * 1024;

/** The time for saying goodbye to a broker, which may not listen. */
export const DISCONNECT_TIMEOUT_MS = 2_000;
