/** The most that one client, and all together, may cost the daemon. */
export const pageLimits = {
  /** Concurrent connections, including viewers. */
  maxConnections: 160,
  /** Connections without a request yet. */
  maxWaiting: 64,
  /** Concurrent viewers. Beyond each limit, the address with the most loses one. */
  maxViewers: 50,
  maxHeaderBytes: 16 * 1024,
  /** The size of a form. */
  maxFormBytes: 8 * 1024,
  /** From the connection to the last header. */
  headersMs: 5_000,
  /** From the headers of a form to its last byte. */
  formMs: 10_000,
  /** For a file: between two pieces, and in all. */
  fileIdleMs: 30_000,
  fileMs: 3_600_000,
  /** Bytes that must stay free on the file system of the state directory when a file is received. */
  minFreeBytes: 64 * 1024 * 1024,
  /** The timeout of a snapshot. */
  gatherMs: 20_000,
  /** How old a snapshot may be. */
  freshMs: 2_000,
  /** The sampling interval of the charts. */
  sampleMs: 15_000,
  /** A viewer without other news gets a sign of life this often. */
  aliveMs: 15_000,
  /** A viewer that reads nothing for this long, or leaves this much unread, is dropped. */
  stalledMs: 30_000,
  maxBacklogBytes: 512 * 1024,
  /** The time that a reply waits for the end of an operation before it only reports its start. */
  quickMs: 1_500,
  closingMs: 2_000,
};

export type PageLimits = Readonly<typeof pageLimits>;
