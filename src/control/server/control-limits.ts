import { MAX_BODY_BYTES } from '../find-operation.ts';

/** The most that one client, and all together, may cost the daemon. */
export interface ControlLimits {
  /** Connections without a request yet; a new one replaces the oldest. */
  readonly maxWaiting: number;
  /** Requests being answered at once, and as many operations being followed. */
  readonly maxAtOnce: number;
  readonly maxHeaderBytes: number;
  readonly maxBodyBytes: number;
  /** From the connection to the end of the headers. */
  readonly headersMs: number;
  /** From the connection to the end of the body. */
  readonly requestMs: number;
  /** How long an answer may take, unless it is that of a long operation. */
  readonly answerMs: number;
  /** A long operation that has nothing to tell says `alive` this often. */
  readonly aliveMs: number;
  /** A client that reads nothing for this long is dropped. */
  readonly stalledMs: number;
  /** A client that has not read this many bytes is dropped. */
  readonly maxBacklogBytes: number;
  /** How often the server checks that its socket still has its path. */
  readonly lookMs: number;
  /** How long open connections may last when the daemon stops. */
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
  maxBacklogBytes: 256 * 1024,
  lookMs: 60_000,
  closingMs: 2_000,
};
