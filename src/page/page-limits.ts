/** What one who asks, and all together, may cost the daemon. */
export interface PageLimits {
  /** Connections at once, those of viewers included. */
  readonly maxConnections: number;
  /** That have not asked for anything yet; the oldest gives way to the next. */
  readonly maxWaiting: number;
  /** Who follows what happens, at once. */
  readonly maxViewers: number;
  readonly maxHeaderBytes: number;
  /** Of a form. */
  readonly maxFormBytes: number;
  /** From the connection to the end of the headers. */
  readonly headersMs: number;
  /** Of a form, from its headers to its end. */
  readonly formMs: number;
  /** Of a file: between two pieces of it, and as a whole. */
  readonly fileIdleMs: number;
  readonly fileMs: number;
  /** What is left free of the state directory's file system when a file is taken. */
  readonly reserveBytes: number;
  /** How long what is shown may take to be gathered. */
  readonly gatherMs: number;
  /** How old it may be for who comes anew, and for who follows. */
  readonly freshMs: number;
  readonly followMs: number;
  /** How often sensors are looked at for their charts. */
  readonly sampleMs: number;
  /** A viewer that hears nothing else is told this often that the page is there. */
  readonly aliveMs: number;
  /** A viewer that does not read for this long, or has not read this much, is dropped. */
  readonly stalledMs: number;
  readonly maxBacklogBytes: number;
  /** How long an operation is waited for before its beginning is told. */
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
  reserveBytes: 64 * 1024 * 1024,
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
