/** The most that one client, and all together, may cost the daemon. */
export interface PageLimits {
  /** Connections at once, including those of viewers. */
  readonly maxConnections: number;
  /** Connections without a request yet. */
  readonly maxWaiting: number;
  /** Viewers that follow at once. Beyond each bound, the address that holds the most gives way. */
  readonly maxViewers: number;
  readonly maxHeaderBytes: number;
  /** The size of a form. */
  readonly maxFormBytes: number;
  /** From the connection to the end of the headers. */
  readonly headersMs: number;
  /** From the headers of a form to its end. */
  readonly formMs: number;
  /** For a file: between two pieces, and in all. */
  readonly fileIdleMs: number;
  readonly fileMs: number;
  /** Bytes that must stay free on the file system of the state directory when a file is received. */
  readonly minFreeBytes: number;
  /** How long it may take to gather a snapshot. */
  readonly gatherMs: number;
  /** How old a snapshot may be for a new request, and for viewers. */
  readonly freshMs: number;
  readonly followMs: number;
  /** How often sensors are sampled for their charts. */
  readonly sampleMs: number;
  /** A viewer without other news gets a sign of life this often. */
  readonly aliveMs: number;
  /** A viewer that reads nothing for this long, or leaves this much unread, is dropped. */
  readonly stalledMs: number;
  readonly maxBacklogBytes: number;
  /** How long an answer waits for the end of an operation before it only says that the operation has begun. */
  readonly quickMs: number;
  readonly closingMs: number;
}

export const pageLimits: PageLimits = {
  maxConnections: 160,
  maxWaiting: 64,
  maxViewers: 50,
  maxHeaderBytes: 16 * 1024,
  maxFormBytes: 8 * 1024,
  headersMs: 5_000,
  formMs: 10_000,
  fileIdleMs: 30_000,
  fileMs: 3_600_000,
  minFreeBytes: 64 * 1024 * 1024,
  gatherMs: 20_000,
  freshMs: 2_000,
  followMs: 15_000,
  sampleMs: 15_000,
  aliveMs: 15_000,
  stalledMs: 30_000,
  maxBacklogBytes: 512 * 1024,
  quickMs: 1_500,
  closingMs: 2_000,
};
