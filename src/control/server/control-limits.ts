import { MAX_BODY_BYTES } from '../find-operation.ts';

/** The limits of one client and of all clients together. */
export interface ControlLimits {
  /** Connections without a request yet, or with a refused one; a new one replaces the oldest. */
  readonly maxWaiting: number;
  /** Concurrent requests, and the same number of followed operations. */
  readonly maxAtOnce: number;
  readonly maxHeaderBytes: number;
  readonly maxBodyBytes: number;
  /** From the connection to the last header. */
  readonly headersMs: number;
  /** From the connection to the last byte of the body. */
  readonly requestMs: number;
  /** The timeout of a reply, except for long operations. */
  readonly answerMs: number;
  /** The keepalive interval of a long operation. */
  readonly aliveMs: number;
  /** A client that reads nothing for this long is dropped. */
  readonly stalledMs: number;
  /** The time that a file may make the daemon wait, in addition to the time at its least average rate (sent-file.ts). */
  readonly slowFileMs: number;
  /** A client that has not read this many bytes is dropped. */
  readonly maxBacklogBytes: number;
  /** The interval at which the server checks that its socket is still at its path. */
  readonly checkMs: number;
  /** The time for open connections to end when the daemon stops. */
  readonly closingMs: number;
}

export const controlLimits: ControlLimits = {
  maxWaiting: 32,
  maxAtOnce: 32,
  maxHeaderBytes: 16 * 1024, // a path in the query may have 4 KiB, three characters for each byte
  maxBodyBytes: MAX_BODY_BYTES,
  headersMs: 5_000,
  requestMs: 10_000,
  answerMs: 120_000,
  aliveMs: 10_000,
  stalledMs: 30_000,
  slowFileMs: 60_000,
  maxBacklogBytes: 256 * 1024,
  checkMs: 100_000, // as often as the watchdog of thing-agent.service is fed, in the same wake-up
  closingMs: 2_000,
};
