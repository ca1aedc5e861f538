import { randomUUID } from 'node:crypto';

import { parseExactly } from '../../../../src/system/json-value.ts';
import type { ReadableText } from '../firmware-text.ts';
import { Refused } from '../world.ts';
import type { Thing, World } from '../world.ts';
import type { Route } from './routes.ts';

/** A reply before a fault may strike it. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: AnswerBody;
}

export type AnswerBody =
  | { readonly kind: 'bytes'; readonly bytes: Buffer }
  | { readonly kind: 'filler'; readonly bytes: number }
  | { readonly kind: 'text'; readonly text: ReadableText; readonly first: number; readonly end: number };

export interface Request {
  readonly route: Route;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: string;
}

export interface Habits {
  /** Which calls need the key: interface.md, "Authentication", leaves the provisioning calls open. */
  readonly keyRequired: 'values' | 'everything';
  readonly etag: 'strong' | 'weak' | 'none' | 'changing';
  readonly ranges: boolean;
  /** false: firmware comes in chunks of unannounced number. */
  readonly contentLength: boolean;
  /** Serial numbers that may activate. Default: all. */
  readonly serialNumbers: readonly string[] | undefined;
}

/** The right reply to a call. Throws Refused for a wrong one. */
export function answer(request: Request, world: World, habits: Habits): Answer {
  const { operation, ids } = request.route;
  const [first = '', second = ''] = ids;
  if (operation === 'activate') return activation(first, world, habits);
  const thing = world.thing(first);
  if (operation === 'property' || operation === 'setProperty' || operation === 'postDatapoints') {
    checkKey(request, thing, true);
    return answerValue(operation, request, thing, second);
  }
  checkKey(request, thing, habits.keyRequired === 'everything');
  switch (operation) {
    case 'currentVersion':
      return json(world.currentVersion(thing));
    case 'targetVersion':
      return json(world.targetVersion(thing));
    case 'updates':
      return json(world.updates(second));
    case 'firmware':
      return firmware(request, second, world, habits);
    case 'switchTo':
      world.switchTo(thing, second);
      return nothing;
  }
}

function answerValue(
  operation: 'property' | 'setProperty' | 'postDatapoints',
  request: Request,
  thing: Thing,
  id: string,
): Answer {
  if (operation === 'property') {
    if (!thing.properties.has(id)) throw new Refused(404, 'no such property');
    return json(thing.properties.get(id));
  }
  checkContentType(request);
  if (operation === 'setProperty') thing.properties.set(id, readValue(request.body));
  else addDatapoints(thing, id, readDatapoints(request.body));
  return nothing;
}

function addDatapoints({ datapoints }: Thing, id: string, points: ReturnType<typeof readDatapoints>): void {
  const all = datapoints.get(id);
  if (all === undefined) datapoints.set(id, [...points]);
  else all.push(...points);
}

const nothing: Answer = { status: 204, headers: {}, body: { kind: 'bytes', bytes: Buffer.alloc(0) } };

function json(value: unknown): Answer {
  const bytes = Buffer.from(JSON.stringify(value));
  return { status: 200, headers: { 'content-type': 'application/json' }, body: { kind: 'bytes', bytes } };
}

function activation(serialNumber: string, world: World, { serialNumbers }: Habits): Answer {
  if (serialNumbers?.includes(serialNumber) === false) throw new Refused(403, 'this serial number is not known');
  const { thingId, apiKey } = world.activate(serialNumber);
  return json({ thingId, apiKey });
}

function checkKey({ headers }: Request, thing: Thing, isRequired: boolean): void {
  const key = headers['x-apikey'];
  if (key === undefined && !isRequired) return;
  if (key !== thing.apiKey) throw new Refused(401, 'the API key is missing or not valid');
}

function checkContentType({ headers }: Request): void {
  if (headers['content-type'] === 'text/json; charset=UTF-8') return;
  throw new Refused(415, 'the Content-Type must be text/json; charset=UTF-8');
}

/** An object, a number or a plain text: interface.md, "Property value operations". */
function readValue(body: string): unknown {
  const value = parseExactly(body);
  return value === undefined ? body : value;
}

const timestamp = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z$/;

function readDatapoints(body: string): readonly { value: unknown; at: string }[] {
  const points: unknown = readValue(body);
  if (!Array.isArray(points)) throw new Refused(400, 'the body is not an array of datapoints');
  return points.map((point: unknown) => {
    if (typeof point !== 'object' || point === null || !('value' in point) || !('at' in point)) {
      throw new Refused(400, 'a datapoint has no value or no at');
    }
    if (typeof point.at !== 'string' || !timestamp.test(point.at)) {
      throw new Refused(400, 'a datapoint’s at is not an ISO 8601 time in UTC with fractional seconds');
    }
    return { value: point.value, at: point.at };
  });
}

/** The whole text, or a part of it (RFC 9110, section 14), if the condition holds (section 13.1.5). */
function firmware({ headers }: Request, versionId: string, world: World, habits: Habits): Answer {
  const { text, tag } = world.firmware(versionId);
  const etag = { strong: `"${tag}"`, weak: `W/"${tag}"`, none: undefined, changing: `"${tag}-${randomUUID()}"` }[
    habits.etag
  ];
  const common = { 'content-type': 'application/json', ...(etag === undefined ? {} : { etag }) };
  const total = text.sizeBytes;
  const { range } = headers;
  const condition = headers['if-range'];
  const wanted = range === undefined || !habits.ranges ? undefined : parseRange(range, total);
  if (wanted === undefined || (condition !== undefined && (habits.etag !== 'strong' || condition !== etag))) {
    const length = habits.contentLength ? { 'content-length': String(total) } : {};
    return { status: 200, headers: { ...common, ...length }, body: { kind: 'text', text, first: 0, end: total } };
  }
  if (wanted.first >= wanted.end) {
    return { ...nothing, status: 416, headers: { ...common, 'content-range': `bytes */${total}` } };
  }
  const contentRange = `bytes ${wanted.first}-${wanted.end - 1}/${total}`;
  const length = String(wanted.end - wanted.first);
  return {
    status: 206,
    headers: { ...common, 'content-range': contentRange, 'content-length': length },
    body: { kind: 'text', text, ...wanted },
  };
}

function parseRange(header: string, total: number): { readonly first: number; readonly end: number } | undefined {
  const match = /^bytes=(\d+)-(\d*)$/.exec(header);
  if (match === null) return undefined;
  const end = match[2] === '' ? total : Math.min(Number(match[2]) + 1, total);
  return { first: Number(match[1]), end };
}
