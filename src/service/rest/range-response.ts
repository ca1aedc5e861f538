import { differ, parseContentLength, parseContentRange, strongValidator } from './validators.ts';

/** The head of a reply that carries encoded firmware, or a part of it. */
export interface TextHead {
  readonly status: number;
  header(name: string): string | undefined;
}

/** Identifies the text that is being read. A member is undefined if the service did not state it. */
export interface TextIdentity {
  readonly totalBytes: number | undefined;
  readonly etag: string | undefined;
}

/** The place to continue at, and the condition (RFC 9110, sections 13.1.5 and 14.2). */
export interface TextRange {
  readonly offset: number;
  readonly validator: string;
}

/** The meaning of a reply for a transfer that has reached some byte. */
export type ResumeDecision =
  /** The reply is exactly the rest. */
  | { readonly kind: 'onward' }
  /** The reply is the whole text, from its first byte. */
  | { readonly kind: 'again' }
  /** The reply is another text. */
  | { readonly kind: 'changed'; readonly why: string }
  /** The reply cannot be used: ask for the whole text. */
  | { readonly kind: 'unusable'; readonly why: string };

export function identityOf(head: TextHead): TextIdentity {
  return { totalBytes: parseContentLength(head.header('content-length')), etag: head.header('etag') };
}

/** Judges the reply to a request for the text, whole or from `offset` on. */
export function classifyRangeResponse(head: TextHead, known: TextIdentity, offset: number): ResumeDecision {
  if (head.status === 206) return judgePart(head, known, offset);
  if (head.status === 416) return { kind: 'unusable', why: 'the service has no such range' };
  const now = identityOf(head);
  if (differ(known.etag, now.etag)) return { kind: 'changed', why: 'it has another ETag' };
  const bothKnown = known.totalBytes !== undefined && now.totalBytes !== undefined;
  if (bothKnown && known.totalBytes !== now.totalBytes) return { kind: 'changed', why: 'it has another length' };
  return { kind: 'again' };
}

/**
 * Accepts a part only if it is the right one of the very same text. The ETag of the part is required: if the text has
 * one, its parts have it, too (RFC 9110, section 15.3.7), and without it a service that ignores If-Range would go
 * unnoticed.
 */
function judgePart(head: TextHead, known: TextIdentity, offset: number): ResumeDecision {
  const range = parseContentRange(head.header('content-range'));
  if (range === undefined) return { kind: 'unusable', why: 'its Content-Range is missing or wrong' };
  if (range.totalBytes !== known.totalBytes) return { kind: 'unusable', why: 'its Content-Range has another length' };
  if (range.first !== offset) return { kind: 'unusable', why: `its Content-Range begins at ${range.first}` };
  const isSame = strongValidator(head.header('etag')) === known.etag;
  return isSame ? { kind: 'onward' } : { kind: 'unusable', why: 'it has another ETag, or none' };
}
