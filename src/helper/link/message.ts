import * as z from 'zod';

import { describeError } from '../../system/errors.ts';
import { HelperError } from '../errors.ts';
import type { Frame } from './frame.ts';
import { linkError } from './link-error.ts';

const id = z.int().min(1).max(Number.MAX_SAFE_INTEGER);

const message = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('call'),
    id,
    verb: z.string().max(64),
    input: z.unknown(),
    within: id.optional(),
  }),
  z.strictObject({ kind: z.literal('result'), id, output: z.unknown() }),
  z.strictObject({ kind: z.literal('error'), id, error: linkError }),
  z.strictObject({ kind: z.literal('cancel'), id }),
  z.strictObject({ kind: z.literal('note'), topic: z.string().max(64), content: z.unknown(), within: id.optional() }),
]);
export type Message = z.infer<typeof message>;

/** Throws `link-malformed`. */
export function parseMessage({ head, body }: Frame): Message {
  const data = requireForm('a message', message, head);
  if (body !== undefined && data.kind !== 'call' && data.kind !== 'result') throw outOfTurn('bytes');
  return data;
}

/** Throws `link-malformed`, which says what is wrong in one bounded line: who sends it may log no more by it. */
export function requireForm<T extends z.ZodType>(what: string, schema: T, value: unknown): z.output<T> {
  const { data, success, error } = schema.safeParse(value);
  if (success) return data;
  throw new HelperError('link-malformed', `${what}: ${describeError(error.issues[0]?.message ?? 'of another form')}`);
}

export function outOfTurn(what: string): HelperError {
  return new HelperError('link-malformed', `${what} came out of turn`);
}
