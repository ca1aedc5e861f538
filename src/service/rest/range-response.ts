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
  if (head.status === 206) return decisionForPart(head, known, offset);
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
function decisionForPart(head: TextHead, known: TextIdentity, offset: number): ResumeDecision {
  const range = parseContentRange(head.header('content-range'));
  if (range === undefined) return { kind: 'unusable', why: 'its Content-Range is missing or wrong' };
  if (range.totalBytes !== known.totalBytes) return { kind: 'unusable', why: 'its Content-Range has another length' };
  if (range.first !== offset) return { kind: 'unusable', why: `its Content-Range begins at ${range.first}` };
  const isSame = strongValidator(head.header('etag')) === known.etag;
  return isSame ? { kind: 'onward' } : { kind: 'unusable', why: 'it has another ETag, or none' };
}

// headers about a text that is read in parts: RFC 9110, sections 8.8.3 (ETag) and 14.4 (Content-Range)

/**
 * Returns a strong validator with its quotes, or undefined if it is weak or malformed, so that ranges must not be
 * combined by it.
 */
export function strongValidator(etag: string | undefined): string | undefined {
  return etag !== undefined && /^"[\x21\x23-\x7e\x80-\xff]*"$/.test(etag) ? etag : undefined;
}

/**
 * True if two ETags name different content; false if one is missing. Weak ETags count, too, since content that differs
 * weakly differs.
 */
export function differ(one: string | undefined, other: string | undefined): boolean {
  return one !== undefined && other !== undefined && opaque(one) !== opaque(other);
}

function opaque(etag: string): string {
  return etag.replace(/^W\//, '');
}

export interface ContentRange {
  readonly first: number;
  readonly last: number;
  readonly totalBytes: number;
}

/**
 * Parses `bytes first-last/total` with consistent numbers. Returns undefined for anything else, including an unknown
 * total (`*`).
 */
export function parseContentRange(header: string | undefined): ContentRange | undefined {
  const match = /^bytes (\d{1,16})-(\d{1,16})\/(\d{1,16})$/i.exec(header ?? '');
  if (match === null) return undefined;
  const [first = 0, last = 0, totalBytes = 0] = match.slice(1).map(Number);
  const sensible = first <= last && last < totalBytes && totalBytes <= Number.MAX_SAFE_INTEGER;
  return sensible ? { first, last, totalBytes } : undefined;
}

export function parseContentLength(header: string | undefined): number | undefined {
  return header !== undefined && /^\d{1,15}$/.test(header) ? Number(header) : undefined;
}
