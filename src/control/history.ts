import * as z from 'zod';

import type { Infer } from './schema-parts.ts';

const historyStep = z.object({
  at: z.string().describe("ISO 8601, by the gateway's clock."),
  step: z.string().describe('Stable, e.g. `staged`; there may be more of them in later versions.'),
  detail: z.string().optional(),
});
export type HistoryStep = Infer<typeof historyStep>;

/** One attempt to install something, or to go back. A newer agent may have written other words than this one knows. */
export const historyAttempt = z.object({
  attempt: z.string().describe('As in reports to the service.'),
  version: z.string(),
  versionId: z.string().optional().describe('What the service calls it; undefined: from a file.'),
  from: z.string().optional().describe('What was installed when it began.'),
  by: z.string().optional().describe('`service`, `file`, `rollback`; undefined: the agent that began it did not say.'),
  manual: z.boolean().optional().describe('A person asked for it.'),
  forced: z.boolean().optional(),
  startedAt: z.string().optional(),
  endedAt: z.string().optional(),
  outcome: z.string().optional().describe('Undefined: it has not ended, or nobody knows how.'),
  code: z.string().optional().describe("An error's stable code, or `ok`."),
  reason: z.string().optional(),
  fetchedBytes: z
    .number()
    .optional()
    .describe('Of what the service sent; what a cut transfer brought after its last checkpoint is missing.'),
  writtenBytes: z.number().optional(),
  reusedBytes: z.number().optional().describe('Were there already, and not written again.'),
  deltaBaseBytes: z.number().optional().describe('Of deltas: made of the slot that runs, and not fetched.'),
  trustList: z
    .number()
    .optional()
    .describe('It was the list of keys and revocations of this number, which took effect.'),
  steps: z.array(historyStep),
});
export type HistoryAttempt = Infer<typeof historyAttempt>;

export const historyReport = z.object({
  attempts: z
    .array(
      historyAttempt.extend({
        durationSeconds: z
          .number()
          .optional()
          .describe("Between begin and end, by the gateway's clock; undefined: one of them is not known."),
        inProgress: z.boolean().optional().describe('It goes on, or will.'),
      }),
    )
    .describe('The oldest first.'),
  discarded: z.int().nonnegative().describe('How many there were before them.'),
});
export type HistoryReport = Infer<typeof historyReport>;
