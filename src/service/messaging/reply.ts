import * as z from 'zod';

import type { Payload } from '../../mqtt/payload.ts';
import { findMembers, parseJson } from './json-members.ts';
import type { JsonMember } from './json-members.ts';

/** The place of a value in a payload. */
export interface PayloadRange {
  readonly payload: Payload;
  readonly start: number;
  readonly end: number;
}

export interface RpcFailure {
  readonly code: number;
  readonly message: string;
  readonly data: unknown;
}

/** A message on a reply topic: JSON-RPC 2.0 (section 5, "Response object") and interface.md, "Messaging form". */
export type Reply =
  | { readonly kind: 'result'; readonly id: string; readonly result: PayloadRange | undefined }
  /** Without an id if the service could not read that of the request. */
  | { readonly kind: 'failure'; readonly id: string | undefined; readonly failure: RpcFailure }
  /** No reply: our own request, or another device's. */
  | { readonly kind: 'request' }
  | { readonly kind: 'broken'; readonly id: string | undefined; readonly why: string };

/** Errors of a service are short; the rest of a longer one is dropped. */
const maxErrorBytes = 64 * 1024;
const maxIdBytes = 1024;

const failureSchema = z.object({ code: z.int(), message: z.string(), data: z.unknown().optional() });

/** Reads a reply in linear time. A `result` is found, but not parsed. Pure. */
export function readReply(payload: Payload): Reply {
  const { members, problem } = findMembers(payload);
  const named = new Map(members.map((member) => [member.name, member]));
  const id = readId(payload, named.get('id'));
  const broken = (why: string): Reply => ({ kind: 'broken', id, why });
  if (problem !== undefined) return broken(`it is not a JSON object: ${problem}`);
  if (named.size < members.length) return broken('it names a member twice');
  if (readSmall(payload, named.get('jsonrpc')) !== '2.0') return broken('it is not JSON-RPC 2.0');
  if (named.has('method')) return { kind: 'request' };
  const result = named.get('result');
  const error = named.get('error');
  const said = readSmall(payload, error);
  if (error !== undefined && said !== null) {
    const failure = failureSchema.safeParse(said);
    if (!failure.success) return broken('its error is not an error object of JSON-RPC');
    if (result !== undefined) return broken('it has both a result and an error');
    const { code, message, data } = failure.data;
    return { kind: 'failure', id, failure: { code, message, data } };
  }
  if (id === undefined) return broken('it has no id');
  return { kind: 'result', id, result: result === undefined ? undefined : { payload, ...result } };
}

/** The id of a reply; ours are strings. */
function readId(payload: Payload, member: JsonMember | undefined): string | undefined {
  if (member === undefined || member.end - member.start > maxIdBytes) return undefined;
  const id = readSmall(payload, member);
  return typeof id === 'string' ? id : undefined;
}

/** A small value; undefined: it is missing, too large, or no JSON. */
function readSmall(payload: Payload, member: JsonMember | undefined): unknown {
  if (member === undefined || member.end - member.start > maxErrorBytes) return undefined;
  return parseJson(payload.join(member.start, member.end));
}
