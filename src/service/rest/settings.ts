import type { RetryPolicy } from '../../system/time/retry.ts';
import type { TlsFiles } from '../../system/tls-files.ts';
import type { ServiceSettings } from '../settings.ts';
import type { ProxySettings } from './connection/proxy.ts';

/** How the service is reached in REST form, from `[service]` and the environment. */
export interface RestSettings extends Pick<
  ServiceSettings,
  'url' | 'keyOnProvisioning' | 'propertyText' | 'deadlines'
> {
  readonly tls: TlsFiles;
  readonly proxy: ProxySettings;
  /**
   * The limit for continuing an interrupted firmware transfer: the number of attempts in a row without a single new
   * byte.
   */
  readonly resume: RetryPolicy;
  readonly userAgent: string;
}

/** About a quarter of an hour without a byte, or more if attempts end at a deadline. */
export const defaultResume: RetryPolicy = {
  attempts: 30,
  firstDelayMs: 500,
  maxDelayMs: 60_000,
  maxRetryAfterMs: 300_000,
};

/** The largest reply other than encoded firmware. */
export const maxReplyBytes = 1024 * 1024;

/** The part that is read of an unimportant body: from an error, or from a success without content. */
export const maxBeginningBytes = 4096;
export const maxBeginningMs = 5_000;

/** Simultaneous connections to the service: a firmware and a few small calls. */
export const maxConnections = 4;
