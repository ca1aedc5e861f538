import type { RetryPolicy } from '../../system/time/retry.ts';
import type { ProxySettings } from './connection/proxy.ts';

/** How the service is reached in REST form, from `[service]` and the environment. */
export interface RestSettings {
  /** `{base_url}` of interface.md: http or https, with or without a path. */
  readonly baseUrl: string;
  /** Sends X-ApiKey with provisioning calls, too. Activation never sends it. */
  readonly keyOnProvisioning: boolean;
  /** PEM files. They are read for each connection, so that they can be replaced. */
  readonly tls: TlsFiles;
  readonly proxy: ProxySettings;
  readonly deadlines: Deadlines;
  /**
   * Whether a property value that is a string is sent as a JSON string or as plain text. interface.md leaves that open.
   */
  readonly propertyText: 'json' | 'plain';
  /** How often a cut firmware transfer is continued: the number of attempts in a row without a single new byte. */
  readonly resume: RetryPolicy;
  readonly userAgent: string;
}

export interface TlsFiles {
  /** Authorities that are trusted instead of the well-known ones. */
  readonly caFile?: string | undefined;
  readonly clientCertificateFile?: string | undefined;
  readonly clientKeyFile?: string | undefined;
}

/** Invariant 6: deadlines in milliseconds. Each has its own error code. */
export interface Deadlines {
  /** For name resolution, TCP, proxy and TLS together: `silent-connect`. */
  readonly connectMs: number;
  /** From the request to the head of the reply: `silent-first-byte`. */
  readonly firstByteMs: number;
  /** Between two pieces of a body, while we want more: `silent-idle`. */
  readonly idleMs: number;
  /** For a whole call, except a firmware: `silent-whole`. */
  readonly wholeMs: number;
  /** For a whole firmware, with all interruptions: `silent-whole`. */
  readonly transferMs: number;
}

/** About a quarter of an hour without a byte, or more if attempts end at a deadline. */
export const defaultResume: RetryPolicy = {
  attempts: 30,
  firstDelayMs: 500,
  maxDelayMs: 60_000,
  maxRetryAfterMs: 300_000,
};

/** The largest reply that is not a firmware. */
export const maxReplyBytes = 1024 * 1024;

/** The part that is read of an unimportant body: that of an error, or of a success without content. */
export const maxBeginningBytes = 4096;
export const maxBeginningMs = 5_000;

/** Simultaneous connections to the service: a firmware and a few small calls. */
export const maxConnections = 4;
