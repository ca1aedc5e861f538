import * as z from 'zod';

import { ReportedFailure } from '../../control/control-errors.ts';
import type { AgentError } from '../../system/errors.ts';
import { UpdateError } from '../../update/errors.ts';

/** A failure as it crosses the link. */
export const linkError = z.strictObject({
  code: z.string().regex(/^[a-z][a-z0-9-]{0,63}$/),
  message: z.string().max(4_096),
  remedy: z.enum(['retry', 'give-up']),
  exit: z.enum(['usage', 'unreachable', 'failed', 'disk', 'tryAgain', 'protocol', 'refused', 'configuration']),
  advice: z.string().max(4_096).optional(),
  retryAfterMs: z.number().nonnegative().optional(),
});
export type LinkError = z.infer<typeof linkError>;

/** What the other side is told of work that it cancelled. */
export const CANCELLED: LinkError = {
  code: 'cancelled',
  message: 'it was called off',
  remedy: 'retry',
  exit: 'tryAgain',
};

export function toLinkError({ code, message, remedy, exit, advice, retryAfterMs }: AgentError): LinkError {
  const bounded = { message: message.slice(0, 4_096), advice: advice?.slice(0, 4_096) };
  return { code, remedy, exit, ...bounded, retryAfterMs };
}

/** Restores an error. A hook's "not now" gets the class by which the update room recognizes it. */
export function fromLinkError({ code, ...detail }: LinkError): AgentError {
  if (code === 'not-now' || code === 'vetoed') return new UpdateError(code, detail.message, detail);
  return new ReportedFailure({ code, ...detail });
}
