import { MAX_BODY_BYTES } from '../find-operation.ts';

/** What one client, and all together, may cost the daemon. */
export interface ControlLimits {
  /** That have not asked for anything yet; the oldest gives way to the next. */
  readonly maxWaiting: number;
  /** That are answered, and as many that follow. */
  readonly maxAtOnce: number;
  readonly maxHeaderBytes: number;
  readonly maxBodyBytes: number;
  /** From the connection to the end of the headers. */
  readonly headersMs: number;
  /** From the connection to the end of the body. */
  readonly requestMs: number;
  /** How long anything but an operation may take. */
  readonly answerMs: number;
  /** An operation that has nothing to tell says `alive` this often. */
  readonly aliveMs: number;
  /** A client that does not read for this long is dropped. */
  readonly stalledMs: number;
  /** A client that has not read this much is dropped. */
  readonly maxBacklogBytes: number;
  /** How often it is looked whether the socket is still where others look for it. */
  readonly lookMs: number;
  /** How long open connections get when the daemon stops. */
  readonly closingMs: number;
}

export const controlLimits: ControlLimits = {
  maxWaiting: 32,
  maxAtOnce: 32,
  maxHeaderBytes: 8 * 1024,
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
