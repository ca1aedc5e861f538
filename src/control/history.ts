import * as z from 'zod';

import type { Of } from './reports.ts';

const historyStep = z.object({
  /** ISO 8601, by the gateway's clock. */
  at: z.string(),
  /** Stable, e.g. `staged`; there may be more of them in later versions. */
  step: z.string(),
  detail: z.string().optional(),
});
export type HistoryStep = Of<typeof historyStep>;

/** One attempt to install something, or to go back. Texts may be those of a newer agent. */
export const historyAttempt = z.object({
  /** As in reports to the service. */
  attempt: z.string(),
  version: z.string(),
  /** What the service calls it; undefined: from a file. */
  versionId: z.string().optional(),
  /** What was installed when it began. */
  from: z.string().optional(),
  /** `service`, `file`, `rollback`; undefined: the agent that began it did not say. */
  by: z.string().optional(),
  /** A person asked for it. */
  byPerson: z.boolean().optional(),
  forced: z.boolean().optional(),
  startedAt: z.string().optional(),
  endedAt: z.string().optional(),
  /** Undefined: it has not ended, or nobody knows how. */
  outcome: z.string().optional(),
  /** An error's stable code, or `ok`. */
  code: z.string().optional(),
  reason: z.string().optional(),
  /** Of what the service sent; what a cut transfer brought after its last checkpoint is missing. */
  fetchedBytes: z.number().optional(),
  writtenBytes: z.number().optional(),
  /** Were there already, and not written again. */
  savedBytes: z.number().optional(),
  steps: z.array(historyStep),
});
export type HistoryAttempt = Of<typeof historyAttempt>;

export const historyReport = z.object({
  /** The oldest first. */
  attempts: z.array(
    historyAttempt.extend({
      /** Between begin and end, by the gateway's clock; undefined: one of them is not known. */
      tookSeconds: z.number().optional(),
      /** It goes on, or will. */
      underWay: z.boolean().optional(),
    }),
  ),
  /** How many there were before them. */
  forgotten: z.int().nonnegative(),
});
export type HistoryReport = Of<typeof historyReport>;
