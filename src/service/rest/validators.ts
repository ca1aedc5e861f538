/** Headers about a text that is read in parts: RFC 9110, sections 8.8.3 (ETag) and 14.4 (Content-Range). */

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
