import type { JsonText } from '../system/json-value.ts';
import type { Datapoint } from './contract.ts';
import { ServiceError } from './errors.ts';
import { readActivation, readVersion, readVersions } from './replies.ts';

/** The input of a call: the parts of its path, the key of the thing, and the value to send. */
export type Input = object;

/** One row of the tables in interface.md. `{name}` stands for the member of the input with this name. */
export interface Operation<I extends Input, O> {
  /** The name of the operation in messages. */
  readonly title: string;
  readonly method: 'GET' | 'PUT' | 'POST';
  readonly path: string;
  /** The name of the method in the messaging form. Omitted if the operation exists in REST form only. */
  readonly rpc?: string;
  /** The key that REST sends: none, since there is none yet; as `service.key_on_provisioning` sets; or always. */
  readonly key: 'none' | 'provisioning' | 'always';
  /** The form of the input's `value`: JSON, or a string as plain text if `service.property_text` demands it. */
  readonly body?: Body<unknown>;
  readonly reply: Reply<O>;
  /** True if repeating the call has no further effect. */
  readonly isRepeatable: boolean;
  /** Never set: carries the type of the input. */
  readonly input?: (input: I) => void;
}

/** An operation with any input and reply. */
export type Row = Operation<never, unknown>;

export interface Body<T> {
  readonly form: 'json' | 'json-or-text';
  /** Never set: carries the type of `value`. */
  readonly type?: T;
}

export interface Reply<O> {
  /** `consent`: only the success of the call counts; `stream`: a text of any length. */
  readonly form: 'json' | 'json-or-text' | 'consent' | 'stream';
  /** Reads a reply of unknown form; `operation` is for error messages. */
  readonly read: (value: unknown, operation: string) => O;
}

type Names<Path> = Path extends `${string}{${infer Name}}${infer Rest}` ? Name | Names<Rest> : never;
type InputOf<Path, Key, Value> = { readonly [Name in Names<Path>]: string } & (Key extends 'none'
  ? unknown
  : { readonly apiKey: string }) &
  ([Value] extends [never] ? unknown : { readonly value: Value });

type TypedRow<Path, Key, Value, O> = Omit<Row, 'input'> & {
  readonly path: Path;
  readonly key: Key;
  readonly body?: Body<Value>;
  readonly reply: Reply<O>;
};

function operation<const Path extends string, const Key extends Row['key'], O, Value = never>(
  row: TypedRow<Path, Key, Value, O>,
): Operation<InputOf<Path, Key, Value>, O> {
  return row;
}

function json<O>(read: Reply<O>['read']): Reply<O> {
  return { form: 'json', read };
}

const consent: Reply<void> = { form: 'consent', read: () => undefined };
const stream: Reply<void> = { form: 'stream', read: () => undefined };

/** The nine operations of the service, each described once; `rest/` and `messaging/` interpret them. */
export const operations = {
  activate: operation({
    title: 'activation',
    method: 'PUT',
    path: '/v1/things/activate/{serialNumber}.json',
    rpc: 'things.activate',
    key: 'none',
    reply: json(readActivation),
    isRepeatable: false,
  }),
  currentVersion: operation({
    title: 'current version',
    method: 'GET',
    path: '/v1/things/{thingId}/versions/current.json',
    rpc: 'things.versions.current.get',
    key: 'provisioning',
    reply: json(readVersion),
    isRepeatable: true,
  }),
  targetVersion: operation({
    title: 'target version',
    method: 'GET',
    path: '/v1/things/{thingId}/versions/target.json',
    rpc: 'things.versions.target.get',
    key: 'provisioning',
    reply: json(readVersion),
    isRepeatable: true,
  }),
  firmware: operation({
    title: 'firmware of version {versionId}',
    method: 'GET',
    path: '/v1/things/{thingId}/versions/{versionId}/firmware.json',
    rpc: 'things.versions.firmware.get',
    key: 'provisioning',
    reply: stream,
    isRepeatable: true,
  }),
  updates: operation({
    title: 'updates from version {versionId}',
    method: 'GET',
    path: '/v1/things/{thingId}/versions/{versionId}/updates.json',
    rpc: 'things.versions.updates.list',
    key: 'provisioning',
    reply: json(readVersions),
    isRepeatable: true,
  }),
  switchTo: operation({
    title: 'switch to version {versionId}',
    method: 'PUT',
    path: '/v1/things/{thingId}/versions/{versionId}/switch.json',
    rpc: 'things.versions.switch',
    key: 'provisioning',
    reply: consent,
    isRepeatable: true,
  }),
  property: operation({
    title: 'property {propertyId}',
    method: 'GET',
    path: '/v1/things/{thingId}/properties/{propertyId}/value.json',
    key: 'always',
    reply: { form: 'json-or-text', read: (value: unknown) => value },
    isRepeatable: true,
  }),
  setProperty: operation({
    title: 'property {propertyId}',
    method: 'PUT',
    path: '/v1/things/{thingId}/properties/{propertyId}/value.json',
    key: 'always',
    body: { form: 'json-or-text' } satisfies Body<unknown>,
    reply: consent,
    isRepeatable: true,
  }),
  postDatapoints: operation({
    title: 'datapoints of event {eventId}',
    method: 'POST',
    path: '/v1/things/{thingId}/events/{eventId}/datapoints.json',
    key: 'always',
    body: jsonBody<readonly Datapoint[] | JsonText>(),
    reply: consent,
    isRepeatable: false,
  }),
} as const;

function jsonBody<T>(): Body<T> {
  return { form: 'json' };
}

/** The name of a call in messages, with ids that are shortened and free of control characters. */
export function titleOf({ title }: Row, input: Input): string {
  return filled(title, input, (id) => id.replace(/\p{C}/gu, '?').slice(0, 64));
}

/** The path of a call in REST form. Every id is percent-encoded as one segment (RFC 3986, section 2.1). */
export function pathOf({ path }: Row, input: Input): string {
  return filled(path, input, segment);
}

/** Returns the parameters of a call in messaging form, the same as in the path. */
export function paramsOf({ path }: Row, input: Input): Readonly<Record<string, string>> {
  return Object.fromEntries(placesIn(path).map((name) => [name, textOf(input, name)]));
}

/** A member of the input that is a text. */
export function textOf(input: Input, name: string): string {
  const value: unknown = Reflect.get(input, name);
  return typeof value === 'string' ? value : '';
}

/** Encodes one segment. Empty and dot segments would name another resource, and lone surrogates cannot be encoded. */
function segment(id: string, name: string): string {
  if (id === '' || id === '.' || id === '..' || !id.isWellFormed()) {
    const what = name.replace(/[A-Z]/g, (capital) => ` ${capital.toLowerCase()}`);
    throw new ServiceError({ code: 'id-invalid', why: `${JSON.stringify(id)} cannot be used as a ${what}` });
  }
  return encodeURIComponent(id);
}

function placesIn(template: string): readonly string[] {
  return [...template.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
}

function filled(template: string, input: Input, spell: (text: string, name: string) => string): string {
  return template.replaceAll(/\{(\w+)\}/g, (_, name: string) => spell(textOf(input, name), name));
}
