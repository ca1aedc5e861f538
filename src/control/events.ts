import * as z from 'zod';

import { boardKnownBy } from './api/board-report.ts';
import { followedName } from './long-operations.ts';
import { progressPhase, slotName } from './reports.ts';
import type { Infer } from './schema-parts.ts';

/** The events and the result of an operation. */

const named = { version: z.string() };
const isRollback = z.boolean().optional().describe('True if an operator rolls back to this version.');
const instead = z.string().optional().describe('The version that runs instead, if it is known.');

const operationOutcome = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('up-to-date'),
    ...named,
    trustList: z.boolean().optional().describe('True for a trust list, which is in effect.'),
    isRecovery: z.boolean().optional().describe('True if the service was not asked: nothing had to be recovered.'),
    reason: z.string().optional().describe('Why there is nothing to do, if no version is installed or offered.'),
  }),
  z.object({ kind: z.literal('deferred'), ...named, code: z.string(), reason: z.string() }),
  z.object({
    kind: z.literal('installed'),
    ...named,
    trustList: z
      .object({
        number: z.number(),
        keys: z.array(z.string()),
        revokedKeys: z.number(),
        unknownKeys: z.number().default(0).describe('Revoked keys that match no key known to this gateway.'),
        revokedReleases: z.number(),
      })
      .optional()
      .describe('The changes, if it was a trust list.'),
  }),
  z.object({ kind: z.literal('reboot-required'), ...named, slot: slotName, isRollback }),
  z.object({
    kind: z.literal('rebooting'),
    ...named,
    slot: slotName,
    isRollback,
    reason: z.string().optional(),
    goesBack: z.boolean().optional().describe('True if the version is abandoned for this reason.'),
    instead,
  }),
  z.object({ kind: z.literal('rolled-back'), ...named, isRollback, reason: z.string(), instead }),
  z.object({ kind: z.literal('cancelled'), ...named }),
  z.object({ kind: z.literal('nothing-to-cancel'), ...named }),
  z.object({
    kind: z.literal('flashed'),
    ...named,
    board: z.string(),
    unchanged: z.boolean().optional().describe('The board was already running it: nothing was written.'),
    known: boardKnownBy.optional(),
  }),
]);
export type OperationOutcome = Infer<typeof operationOutcome>;

const operationEvent = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('phase'), phase: progressPhase, detail: z.string().optional() }),
  z.object({
    kind: z.literal('transfer'),
    receivedBytes: z.number(),
    totalBytes: z
      .number()
      .optional()
      .transform((value) => value),
  }),
  z.object({
    kind: z.literal('board'),
    board: z.string(),
    step: z.string(),
    doneBytes: z.number(),
    totalBytes: z.number(),
  }),
  /** The operation is already running; its progress and its result follow. */
  z.object({ kind: z.literal('following'), operation: followedName }),
]);
export type OperationEvent = Infer<typeof operationEvent>;
export type TransferProgress = Omit<Extract<OperationEvent, { readonly kind: 'transfer' }>, 'kind'>;

export type OnEvent = (event: OperationEvent) => void;

/** An error on the control socket. */
const reportedError = z.object({
  code: z.string(),
  message: z.string(),
  exit: z.enum(['usage', 'unreachable', 'failed', 'disk', 'tryAgain', 'protocol', 'refused', 'configuration']),
  advice: z.string().optional(),
});
export type ReportedError = Infer<typeof reportedError>;

export const errorReply = z.object({ error: reportedError });

/** One line of an operation's stream. `alive` is a keepalive. */
export const streamLine = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('alive') }),
  z.object({ kind: z.literal('event'), event: operationEvent }),
  z.object({ kind: z.literal('result'), outcome: operationOutcome }),
  z.object({ kind: z.literal('error'), error: reportedError }),
]);
export type StreamLine = Infer<typeof streamLine>;
