import { headerOf } from './statuses.ts';
import type { Headers } from './statuses.ts';

/**
 * Guarantee `no-page`: true if a successful reply may be a web page, which captive portals, maintenance pages and
 * single-page applications answer to any request. `jsonStart` matches the beginning of a reply that proves itself by
 * its form; such a reply may be labeled as HTML, as some servers label everything.
 */
export function mayBeWebPage(headers: Headers, beginning: Uint8Array, jsonStart?: RegExp): boolean {
  const text = Buffer.from(beginning).toString('latin1').replaceAll(marks, '').trimStart();
  if (text.startsWith('<')) return true;
  const type = headerOf(headers, 'content-type')?.split(';', 1)[0] ?? '';
  const isLabeled = /\bx?html\b/i.test(type) || headerOf(headers, 'refresh') !== undefined;
  return isLabeled && jsonStart?.test(text) !== true;
}

/** Byte order marks in latin1, and the zeros of UTF-16 and UTF-32. */
const marks = /^(?:ï»¿|ÿþ|þÿ)|\0/g;
