import { randomUUID } from 'node:crypto';

import * as z from 'zod';

import { parsedJsonBytes } from '../../system/json-value.ts';
import { ServiceError } from '../errors.ts';
import type { ServiceErrorCode } from '../errors.ts';
import { codeOfStatus, excerptOf, phrases } from '../rest/statuses.ts';
import { MAX_REPLY_BYTES } from './settings.ts';

export type RpcFailure = z.output<typeof failureSchema>;

/** A message on a reply topic: JSON-RPC 2.0 (section 5, "Response object") and interface.md, "Messaging form". */
export type Reply =
  /**
   * Without result if the reply has none. A text that is too long to be parsed is a Buffer, with its quotation marks.
   */
  | { readonly kind: 'result'; readonly id: string; readonly result: unknown }
  /** Without an id if the service could not read the request's id. */
  | { readonly kind: 'failure'; readonly id: string | undefined; readonly failure: RpcFailure }
  /** No reply: our own request, or another device's. */
  | { readonly kind: 'request' }
  | { readonly kind: 'broken'; readonly id: string | undefined; readonly why: string };

const envelopeSchema = z.object({
  jsonrpc: z.unknown().optional(),
  id: z.unknown().optional(),
  method: z.unknown().optional(),
  result: z.unknown().optional(),
  error: z.unknown().optional(),
});
const failureSchema = z.object({ code: z.int(), message: z.string() });

/** Reads a reply in linear time. */
export function readReply(bytes: Buffer): Reply {
  if (bytes.byteLength <= MAX_REPLY_BYTES) return replyOf(parsedJsonBytes(bytes));
  const text = longText(bytes);
  if (text === undefined) return broken('it is too long');
  const rest = [bytes.subarray(0, text.start), Buffer.from(`"${placeholder}"`), bytes.subarray(text.end)];
  const reply = replyOf(parsedJsonBytes(Buffer.concat(rest)));
  const isResult = reply.kind === 'result' && reply.result === placeholder;
  return isResult ? { ...reply, result: bytes.subarray(text.start, text.end) } : reply;
}

/** Takes the place of a long text while the rest is parsed. No sender can know it. */
const placeholder = randomUUID();

function replyOf(value: unknown): Reply {
  const envelope = envelopeSchema.safeParse(value);
  if (!envelope.success) return broken('it is not a JSON object in UTF-8');
  const { jsonrpc, method, result, error } = envelope.data;
  const id = typeof envelope.data.id === 'string' ? envelope.data.id : undefined;
  if (jsonrpc !== '2.0') return broken('it is not JSON-RPC 2.0', id);
  if (method !== undefined) return { kind: 'request' };
  if (error !== undefined && error !== null) {
    const failure = failureSchema.safeParse(error);
    if (!failure.success) return broken('its error is not an error object of JSON-RPC', id);
    if (result !== undefined) return broken('it has both a result and an error', id);
    return { kind: 'failure', id, failure: failure.data };
  }
  return id === undefined ? broken('it has no id') : { kind: 'result', id, result };
}

function broken(why: string, id?: string): Reply {
  return { kind: 'broken', id, why };
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
/** An encoded firmware image has no quotation marks, and the rest of its reply has few. */
const MAX_QUOTES = 65_536;

/** Finds the string without which a reply is short enough, from quotation mark to behind quotation mark. */
function longText(bytes: Buffer): { readonly start: number; readonly end: number } | undefined {
  let start = -1;
  let at = bytes.indexOf(QUOTE);
  for (let quotes = 0; at !== -1 && quotes < MAX_QUOTES; quotes += 1) {
    if (start === -1) start = at;
    else if (!isEscaped(bytes, at)) {
      const end = at + 1;
      if (bytes.byteLength - (end - start) < MAX_REPLY_BYTES / 2) return { start, end };
      start = -1;
    }
    at = bytes.indexOf(QUOTE, at + 1);
  }
  return undefined;
}

function isEscaped(bytes: Buffer, at: number): boolean {
  let backslashes = 0;
  while (bytes[at - 1 - backslashes] === BACKSLASH) backslashes += 1;
  return backslashes % 2 === 1;
}

/**
 * Returns the error that an error object means (JSON-RPC 2.0, section 5.1); interface.md shows none. Codes of JSON-RPC
 * have their defined meaning; others count as the HTTP statuses that the same service would answer in REST form, if they
 * say more than that it refused. `secret`: a text that the service may repeat, but that must not be shown to anyone else.
 */
export function rpcError(
  { code, message }: RpcFailure,
  operation: string,
  isActivation: boolean,
  secret?: string,
): ServiceError {
  const meant = meaningOf(code, isActivation);
  const excerpt = excerptOf(Buffer.from(message), secret);
  const phrase = jsonRpcPhrases.get(code) ?? phrases[meant] ?? '';
  const why = `${phrase} (error ${code})${excerpt === undefined ? '' : `: ${excerpt}`}`;
  return new ServiceError({ code: meant, operation, why, isAnswer: true });
}

function meaningOf(code: number, isActivation: boolean): ServiceErrorCode {
  // our request was well-formed when it was sent
  if (code === -32_700 || code === -32_603 || (code <= -32_000 && code >= -32_099)) return 'service-failed';
  const ofStatus = codeOfStatus(code, isActivation ? 'activation' : 'not-sent');
  return statusMeanings.has(ofStatus) ? ofStatus : 'service-rejected';
}

const jsonRpcPhrases: ReadonlyMap<number, string> = new Map([
  [-32_700, 'the service could not read the request'],
  [-32_600, 'the service does not take it for a request'],
  [-32_601, 'the service does not know the method'],
  [-32_602, 'the service does not accept the parameters'],
]);

const statusMeanings: ReadonlySet<string> = new Set<ServiceErrorCode>([
  'activation-refused',
  'service-not-found',
  'service-conflict',
  'service-too-large',
  'service-rate-limited',
  'service-request-timeout',
  'service-unavailable',
  'service-failed',
]);
