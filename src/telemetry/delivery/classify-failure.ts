import { AgentError, describeError } from '../../system/errors.ts';

/** The consequence of a failed delivery for its datapoints. */
export type FailureClass =
  /** The request was too large: send fewer datapoints in one. */
  | { readonly kind: 'split'; readonly reason: string }
  /** Something in the request was refused: find out what. */
  | { readonly kind: 'refused'; readonly reason: string }
  /** The service does not know this event or property now: the others continue. */
  | { readonly kind: 'unknown'; readonly reason: string }
  /** Any request would have failed: try again later. */
  | { readonly kind: 'wait'; readonly reason: string; readonly retryAfterMs: number };

const meaning: ReadonlyMap<string, 'split' | 'refused' | 'unknown'> = new Map([
  ['service-too-large', 'split'], // 413
  ['service-rejected', 'refused'], // 400, 422 and other 4xx
  ['service-conflict', 'refused'], // 409
  ['value-invalid', 'refused'],
  ['id-invalid', 'refused'],
  ['service-not-found', 'unknown'], // 404
] as const);

/** Throws any error other than an AgentError: a defect, or the reason of an aborted signal. */
export function classifyFailure(error: unknown): FailureClass {
  if (!(error instanceof AgentError)) throw error;
  const reason = describeError(error);
  const kind = meaning.get(error.code);
  if (kind !== undefined) return { kind, reason };
  return { kind: 'wait', reason, retryAfterMs: error.retryAfterMs ?? 0 };
}
