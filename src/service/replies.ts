import * as z from 'zod';

import { maxValueDepth, nestedWithin, parseExactly } from '../system/json-value.ts';
import type { Activation, Version } from './contract.ts';
import { ServiceError } from './errors.ts';

/**
 * Parses the replies of the service. Their shapes are defined in interface.md ("Resources and their fields"), the same
 * in both forms. Unknown members are ignored, and an absent or null description counts as none. Everything else that
 * differs is `reply-malformed`, with the operation and the wrong part.
 */

/** Real names are shorter. A name is part of log lines, of the journal, and of the addresses of requests. */
const MAX_NAME_LENGTH = 512;
const MAX_DESCRIPTION_LENGTH = 4_096;
const MAX_KEY_LENGTH = 4_096;
const MAX_VERSIONS = 10_000;

/** True if an id can be a segment of an address (operations.ts). These texts would name another resource. */
const isSegment = (text: string): boolean => text !== '.' && text !== '..' && text.isWellFormed();

const id = z.string().min(1).max(MAX_NAME_LENGTH).refine(isSegment, 'cannot be used in an address');
const name = z.string().max(MAX_NAME_LENGTH);
/** A description is truncated, since only people read it. */
const description = z
  .string()
  .nullish()
  .transform((text) => text?.slice(0, MAX_DESCRIPTION_LENGTH) ?? undefined);

/** The value of a header field without surrounding blanks (RFC 9110, section 5.5). */
const headerValue = z
  .string()
  .max(MAX_KEY_LENGTH)
  .regex(/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/, 'cannot be sent as a header');

/** The shape of an activation, which the file of the identity uses, too. */
export const activationShape = { thingId: id, apiKey: headerValue };

export const activationSchema = z.object(activationShape);
export const versionSchema = z.object({ id, name, description });
export const versionsSchema = z.array(versionSchema).max(MAX_VERSIONS);

export const readActivation = readerOf<Activation>(activationSchema);
export const readVersion = readerOf<Version>(versionSchema);
export const readVersions = readerOf<readonly Version[]>(versionsSchema);

function readerOf<T>(schema: z.ZodType<T>) {
  return (reply: unknown, operation: string): T => {
    const result = schema.safeParse(reply);
    if (result.success) return result.data;
    const issue = result.error.issues[0];
    const part = issue === undefined || issue.path.length === 0 ? 'as a whole' : `at \`${issue.path.join('.')}\``;
    throw malformed(operation, `the reply is wrong ${part}: ${issue?.message ?? 'unknown'}`, result.error);
  };
}

/** Parses JSON in UTF-8 (RFC 8259). */
export function readJson(body: Uint8Array, operation: string): unknown {
  if (body.byteLength === 0) throw malformed(operation, 'the reply has no body');
  try {
    return shallow(JSON.parse(readText(body, operation)), operation);
  } catch (error) {
    throw error instanceof ServiceError ? error : malformed(operation, 'the reply is not JSON', error);
  }
}

function shallow(value: unknown, operation: string): unknown {
  if (nestedWithin(value)) return value;
  throw malformed(operation, `the reply is nested deeper than ${maxValueDepth} levels`);
}

/**
 * Parses a value whose form interface.md does not show: JSON if it is JSON, else the text itself; an empty body is
 * undefined.
 */
export function readJsonOrText(body: Uint8Array, operation: string): unknown {
  if (body.byteLength === 0) return undefined;
  const text = readText(body, operation);
  const value = parseExactly(text);
  return value === undefined ? text : shallow(value, operation);
}

function readText(body: Uint8Array, operation: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(body);
  } catch (error) {
    throw malformed(operation, 'the reply is not text in UTF-8', error);
  }
}

export function malformed(operation: string, why: string, cause?: unknown): ServiceError {
  return new ServiceError({ code: 'reply-malformed', operation, why, cause });
}
