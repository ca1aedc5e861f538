import type { RetryPolicy } from '../../system/time/retry.ts';
import type { TlsFiles } from '../rest/settings.ts';

/** How the service is reached in messaging form. Filled from `[service.messaging]`. */
export interface MessagingSettings {
  /** mqtts or mqtt. */
  readonly url: string;
  /** 4 is MQTT 3.1.1. */
  readonly protocolVersion: 4 | 5;
  readonly clientId: string;
  readonly username: string | undefined;
  /** Read for each connection, as are the TLS files, so that they can be renewed in place. */
  readonly passwordFile: string | undefined;
  readonly tls: TlsFiles;
  readonly topics: Topics;
  readonly keepAliveMs: number;
  /** 0: the broker forgets the session with the connection. */
  readonly sessionExpiryMs: number;
  /** Of a firmware's text. */
  readonly maxMessageBytes: number;
  readonly deadlines: MessagingDeadlines;
  /** Pauses between two attempts to connect; there is no end to them. */
  readonly reconnect: Pick<RetryPolicy, 'firstDelayMs' | 'maxDelayMs'>;
  /** Tells the status topic who is online. */
  readonly serialNumber: string;
  readonly agentVersion: string;
}

export interface Topics {
  readonly activate: string;
  readonly request: string;
  /** Undefined: nothing is asked in this form. */
  readonly reply: string | undefined;
  readonly status: string | undefined;
  readonly wake: string | undefined;
}

/** Milliseconds. */
export interface MessagingDeadlines {
  /** Until the broker let us in and took our subscriptions. */
  readonly connectMs: number;
  /** From a request to its reply, or to more of a large message. */
  readonly requestMs: number;
  /** From a request of which the broker said that nobody listens: not every broker knows all who do. */
  readonly unheardMs: number;
  /** A whole call, whatever else comes meanwhile. */
  readonly wholeMs: number;
  /** A whole firmware. */
  readonly transferMs: number;
}

export const defaultUnheardMs = 5_000;

export const defaultReconnect: MessagingSettings['reconnect'] = { firstDelayMs: 1_000, maxDelayMs: 120_000 };

/** A connection that lasted so long was a good one: the failures before it count no more. */
export const STABLE_MS = 60_000;

/** Requests that wait for their reply at a time; the agent makes one or two. */
export const MAX_PENDING_REQUESTS = 8;

/** Of a reply, around its result: so that a text of the largest size still comes through. */
export const ENVELOPE_BYTES = 4096;

/** A reply that is not a firmware. */
export const MAX_REPLY_BYTES = 1024 * 1024;

/** For saying goodbye: a broker that does not listen is left without it. */
export const GOODBYE_MS = 2_000;
