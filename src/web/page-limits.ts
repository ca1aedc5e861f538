/** The most that one client, and all together, may cost the daemon. */
export interface PageLimits {
  /** Concurrent connections, including viewers. */
  readonly maxConnections: number;
  /** Connections without a request yet. */
  readonly maxWaiting: number;
  /** Concurrent viewers. Beyond each limit, the address with the most loses one. */
  readonly maxViewers: number;
  readonly maxHeaderBytes: number;
  /** The size of a form. */
  readonly maxFormBytes: number;
  /** From the connection to the last header. */
  readonly headersMs: number;
  /** From the headers of a form to its last byte. */
  readonly formMs: number;
  /** For a file: between two pieces, and in all. */
  readonly fileIdleMs: number;
  readonly fileMs: number;
  /** Bytes that must stay free on the file system of the state directory when a file is received. */
  readonly minFreeBytes: number;
  /** The timeout of a snapshot. */
  readonly gatherMs: number;
  /** How old a snapshot may be for a new request, and for viewers. */
  readonly freshMs: number;
  readonly followMs: number;
  /** The sampling interval of the charts. */
  readonly sampleMs: number;
  /** A viewer without other news gets a sign of life this often. */
  readonly aliveMs: number;
  /** A viewer that reads nothing for this long, or leaves this much unread, is dropped. */
  readonly stalledMs: number;
  readonly maxBacklogBytes: number;
  /** The time that a reply waits for the end of an operation before it only reports its start. */
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
