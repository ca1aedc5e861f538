import { AgentError, describeError } from '../../system/errors.ts';

/** What a failed delivery means for what was sent. */
export type FailureClass =
  /** The request was too large: send less at once. */
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

/** Throws an error that is no AgentError: a defect, or the reason of an aborted signal. */
export function classifyFailure(error: unknown): FailureClass {
  if (!(error instanceof AgentError)) throw error;
  const reason = describeError(error);
  const kind = meaning.get(error.code);
  if (kind !== undefined) return { kind, reason };
  return { kind: 'wait', reason, retryAfterMs: error.retryAfterMs ?? 0 };
}
