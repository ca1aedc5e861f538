import * as z from 'zod';

import type { Infer } from './schema-parts.ts';

const historyStep = z.object({
  at: z.string().describe("ISO 8601, by the gateway's clock."),
  step: z.string().describe('A stable code such as `staged`; later versions may add codes.'),
  detail: z.string().optional(),
});
export type HistoryStep = Infer<typeof historyStep>;

/** One update attempt or rollback. A newer agent may have written unknown codes. */
export const historyAttempt = z.object({
  attempt: z.string().describe('The ID, as in reports to the service.'),
  version: z.string(),
  versionId: z.string().optional().describe('The version ID of the service; omitted for a file.'),
  from: z.string().optional().describe('The previous version.'),
  by: z.string().optional().describe('`service`, `file` or `rollback`; omitted by an older agent.'),
  manual: z.boolean().optional().describe('True if an operator requested it.'),
  forced: z.boolean().optional(),
  startedAt: z.string().optional(),
  endedAt: z.string().optional(),
  outcome: z.string().optional().describe('Omitted if it has not ended, or the result is unknown.'),
  code: z.string().optional().describe("An error's stable code, or `ok`."),
  reason: z.string().optional(),
  fetchedBytes: z
    .number()
    .optional()
    .describe('Downloaded bytes, without those after the last checkpoint of an interrupted transfer.'),
  writtenBytes: z.number().optional(),
  reusedBytes: z.number().optional().describe('Bytes that were already there and were not written again.'),
  deltaBaseBytes: z.number().optional().describe('Bytes that deltas took from the running slot.'),
  trustList: z.number().optional().describe('The number of the trust list that took effect.'),
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
          .describe("Between start and end, by the gateway's clock; omitted if one is unknown."),
        inProgress: z.boolean().optional().describe('True if it is running, or will resume.'),
      }),
    )
    .describe('The oldest first.'),
  discarded: z.int().nonnegative().describe('The number of older, discarded entries.'),
});
export type HistoryReport = Infer<typeof historyReport>;
