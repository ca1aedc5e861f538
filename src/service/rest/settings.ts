import type { RetryPolicy } from '../../system/time/retry.ts';
import type { ProxySettings } from './proxy.ts';

/** How the service is reached in REST form. Filled from `[service]` and the environment. */
export interface RestSettings {
  /** `{base_url}` of interface.md: http or https, with or without a path. */
  readonly baseUrl: string;
  /** Send X-ApiKey on provisioning calls too. Activation never carries it. */
  readonly keyOnProvisioning: boolean;
  /** PEM files, read for each connection, so that they can be renewed in place. */
  readonly tls: TlsFiles;
  readonly proxy: ProxySettings;
  readonly deadlines: Deadlines;
  /** How a property value that is a string is sent: as a JSON string, or as the text itself. interface.md leaves it open. */
  readonly propertyText: 'json' | 'plain';
  /** How patiently a cut firmware transfer is taken up again: attempts in a row without a single new byte. */
  readonly resume: RetryPolicy;
  readonly userAgent: string;
}

export interface TlsFiles {
  /** Trusted instead of the well-known authorities. */
  readonly caFile?: string | undefined;
  readonly clientCertificateFile?: string | undefined;
  readonly clientKeyFile?: string | undefined;
}

/** Milliseconds. Each has its own error code. */
export interface Deadlines {
  /** Name resolution, TCP, proxy and TLS together: `silent-connect`. */
  readonly connectMs: number;
  /** From the request to the reply's head: `silent-first-byte`. */
  readonly firstByteMs: number;
  /** Between two pieces of a body, while we want more: `silent-idle`. */
  readonly idleMs: number;
  /** A whole call, but for a firmware: `silent-whole`. */
  readonly wholeMs: number;
  /** A whole firmware, with everything that interrupts it: `silent-whole`. */
  readonly transferMs: number;
}

/** About a quarter of an hour without a byte, more if attempts end at a deadline. */
export const defaultResume: RetryPolicy = {
  attempts: 30,
  firstDelayMs: 500,
  maxDelayMs: 60_000,
  maxRetryAfterMs: 300_000,
};

/** A reply that is not firmware. */
export const maxReplyBytes = 1024 * 1024;

/** Of a body that is of little interest: with an error status, or after consent. */
export const maxBeginningBytes = 4096;
export const maxBeginningMs = 5_000;

/** Connections to the service at a time: a firmware and a few small calls. */
export const maxConnections = 4;
