import { ServiceError } from '../errors.ts';
import type { ServiceErrorCode } from '../errors.ts';

export type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

/** The value of a header field, the first one if it occurs several times. `name` is in lower case. */
export function headerOf(headers: Headers, name: string): string | undefined {
  const value = headers[name];
  return typeof value === 'string' ? value : value?.[0];
}

export interface Refusal {
  readonly operation: string;
  readonly status: number;
  /** Host and path of the request. */
  readonly place: string;
  readonly headers: Headers;
  /** The beginning of the reply's body, for messages. */
  readonly excerpt: string | undefined;
  /** `sent` if the call sent an API key, `activation` if it was the activation. */
  readonly key: 'sent' | 'not-sent' | 'activation';
}

/** The error of a status that is not 2xx (RFC 9110, section 15), of which interface.md shows none, or of this code. */
export function errorOfStatus(
  refusal: Refusal,
  nowMs: number,
  code = codeOfStatus(refusal.status, refusal.key),
): ServiceError {
  const { operation, status, place, headers, excerpt } = refusal;
  const target = code === 'service-redirected' ? redirectTarget(headerOf(headers, 'location')) : '';
  const detail = excerpt === undefined ? '' : `: ${excerpt}`;
  return new ServiceError({
    code,
    operation,
    why: `${phrases[code] ?? 'the service answered'} (status ${status} of ${place}${target})${detail}`,
    retryAfterMs: retryAfterMs(headers, nowMs),
    isAnswer: !foreign.has(code),
  });
}

/** Codes of replies that come from something else than the service. */
const foreign: ReadonlySet<string> = new Set(['proxy-authentication', 'service-redirected', 'reply-web-page']);

export const phrases: Partial<Record<ServiceErrorCode, string>> = {
  'key-rejected': 'the service does not accept the API key',
  'key-required': 'the service wants the API key on this call',
  'activation-refused': 'the service refuses to activate this serial number',
  'service-not-found': 'the service does not know it',
  'service-conflict': 'it conflicts with the state at the service',
  'service-too-large': 'it is too large for the service',
  'service-rate-limited': 'the service asks for fewer calls',
  'service-request-timeout': 'the request reached the service too slowly',
  'service-rejected': 'the service rejects the request',
  'service-unavailable': 'the service is unavailable for now',
  'service-failed': 'the service failed',
  'service-redirected': 'the reply redirects, which is not followed; a captive portal may be answering',
  'proxy-authentication': 'the proxy wants a valid user name and password',
  'reply-web-page': 'a web page answered instead of the service; a captive portal may be answering',
  'reply-malformed': 'the status of the reply is not a known one',
};

export function codeOfStatus(status: number, key: Refusal['key']): ServiceErrorCode {
  const known = codes.get(status);
  if (known === 'key-rejected') return keyCodes[key];
  if (known !== undefined) return known;
  if (status >= 300 && status < 400) return 'service-redirected';
  if (status >= 400 && status < 500) return 'service-rejected';
  return status >= 500 && status < 600 ? 'service-failed' : 'reply-malformed';
}

const keyCodes = { sent: 'key-rejected', 'not-sent': 'key-required', activation: 'activation-refused' } as const;

const codes: ReadonlyMap<number, ServiceErrorCode> = new Map([
  [401, 'key-rejected'],
  [403, 'key-rejected'],
  [404, 'service-not-found'],
  // the service knows the methods of its own calls: another server answers, which judges nothing that was sent
  [405, 'service-not-found'],
  [407, 'proxy-authentication'],
  [408, 'service-request-timeout'],
  [409, 'service-conflict'],
  [413, 'service-too-large'],
  [429, 'service-rate-limited'],
  [503, 'service-unavailable'],
  [511, 'reply-web-page'], // RFC 6585, section 6: a captive portal
]);

/** The origin of a redirection; the rest of the address may hold secrets. */
function redirectTarget(location: string | undefined): string {
  if (location === undefined || !URL.canParse(location)) return '';
  return `, to ${new URL(location).origin}`;
}

/** A longer pause is shortened to this. */
const maxRetryAfterMs = 24 * 3_600_000;

/**
 * Returns the pause of `Retry-After` (RFC 9110, section 10.2.3): seconds, or a date. A date is compared with the
 * reply's own `Date` if there is one, since the gateway's clock may be wrong. Returns undefined if no pause was
 * requested, or the header is malformed.
 */
export function retryAfterMs(headers: Headers, nowMs: number): number | undefined {
  const text = headerOf(headers, 'retry-after')?.trim();
  if (text === undefined || text === '') return undefined;
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, maxRetryAfterMs);
  const until = parseHttpDate(text);
  if (until === undefined) return undefined;
  const now = parseHttpDate(headerOf(headers, 'date')) ?? nowMs;
  return Math.min(Math.max(until - now, 0), maxRetryAfterMs);
}

/**
 * Returns the service's clock by its `Date` (RFC 9110, section 6.6.1), or undefined if there is none, or the reply
 * comes from a cache (`Age`).
 */
export function serviceTimeMs(headers: Headers): number | undefined {
  return headerOf(headers, 'age') === undefined ? parseHttpDate(headerOf(headers, 'date')) : undefined;
}

/** Parses the three forms of RFC 9110, section 5.6.7. The third one has no zone and means UTC. */
function parseHttpDate(text: string | undefined): number | undefined {
  if (text === undefined || !/^[A-Z][a-z]+,? /.test(text)) return undefined;
  const ms = Date.parse(text.endsWith(' GMT') ? text : `${text} GMT`);
  return Number.isNaN(ms) ? undefined : ms;
}

/** One line of text from a reply's body, without control characters and without the secret that was sent. */
export function excerptOf(body: Uint8Array, secret: string | undefined): string | undefined {
  const text = Buffer.from(body).toString('utf8');
  const hidden = secret === undefined || secret === '' ? text : text.replaceAll(secret, '***');
  const line = hidden.replace(/[\p{C}\s]+/gu, ' ').trim();
  if (line === '') return undefined;
  return line.length > maxExcerptLength ? `${line.slice(0, maxExcerptLength)}…` : line;
}

const maxExcerptLength = 160;
