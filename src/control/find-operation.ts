import { undefinedIfThrows, isSyntaxError } from '../system/errors.ts';
import { ControlRequestError } from './control-errors.ts';
import type { LongOperation } from './long-operations.ts';
import { operationTable } from './operations.ts';
import type { Answered } from './operations.ts';

/** The maximum size of an input as JSON, with and without the socket. */
export const MAX_BODY_BYTES = 64 * 1024;

/** An entry of the table, and the parameters in the path of the request. */
export interface FoundOperation {
  readonly name: string;
  readonly entry: Answered | LongOperation;
  readonly parameters: Readonly<Record<string, string>>;
}

/** Finds the operation of a request line. Throws ControlRequestError (404, 405, 400). */
export function findOperation(method: string, url: string): FoundOperation {
  const segments = decodeSegments(url);
  const here = Object.entries<Answered | LongOperation>(operationTable).flatMap(([name, entry]) => {
    const parameters = parametersOf(entry.path, segments);
    return parameters === undefined ? [] : [{ name, entry, parameters }];
  });
  if (here.length === 0) throw new ControlRequestError(404, 'control-route-unknown', 'unknown path');
  const found = here.find(({ entry }) => methodOf(entry) === method);
  if (found !== undefined) return found;
  const allowed = here.map(({ entry }) => methodOf(entry)).join(', ');
  throw new ControlRequestError(405, 'control-method-wrong', `this path accepts ${allowed}`);
}

/** Reads and checks the input of an operation. Throws ControlRequestError (400). */
export function readInput({ entry, parameters }: FoundOperation, body: unknown): object {
  const isObject = typeof body === 'object' && body !== null && !Array.isArray(body);
  if (body !== undefined && !isObject) throw invalid('the request: not an object');
  const doubled = Object.keys(parameters).find((name) => isObject && Object.hasOwn(body, name));
  if (doubled !== undefined) throw invalid(`${doubled}: is already in the path`);
  return checkInput(entry, { ...body, ...parameters });
}

/** Returns the members in the query of a request with a file. Throws ControlRequestError (400). */
export function queryOf(url: string): Readonly<Record<string, unknown>> {
  const members: Record<string, unknown> = {};
  for (const [name, value] of new URL(url, 'http://agent').searchParams) {
    if (Object.hasOwn(members, name)) throw invalid(`${name}: is given twice`);
    members[name] = value === 'true' || value === 'false' ? value === 'true' : value;
  }
  return members;
}

/** Checks an input against its schema, except its file. Throws ControlRequestError (400). */
export function checkInput(
  entry: Answered | LongOperation,
  { file, ...input }: object & { readonly file?: unknown },
): object {
  const parsed = entry.input.safeParse(entry.takesFile === true || file === undefined ? input : { ...input, file });
  if (parsed.success) return file === undefined ? parsed.data : { ...parsed.data, file };
  const issue = parsed.error.issues[0];
  const where = issue === undefined || issue.path.length === 0 ? 'the request' : issue.path.join('.');
  throw invalid(`${where}: ${issue?.message ?? 'does not fit'}`);
}

export function methodOf(entry: Answered | LongOperation): string {
  return 'output' in entry ? entry.method : 'POST';
}

function decodeSegments(url: string): readonly string[] {
  const [root, version, ...segments] = (url.split('?', 1)[0] ?? '').split('/');
  if (root !== '' || version !== 'v1') return [];
  const decoded = undefinedIfThrows(isSyntaxError, () => segments.map(decodeURIComponent));
  if (decoded === undefined) throw invalid('the path is not percent-encoded UTF-8');
  return decoded;
}

/** Returns the parameters in the path of a request, or undefined for another path. */
function parametersOf(path: string, segments: readonly string[]): Readonly<Record<string, string>> | undefined {
  const parts = path.split('/');
  if (parts.length !== segments.length) return undefined;
  const parameters: Record<string, string> = {};
  for (const [index, part] of parts.entries()) {
    const segment = segments[index] ?? '';
    if (part.startsWith(':')) parameters[part.slice(1)] = segment;
    else if (part !== segment) return undefined;
  }
  return parameters;
}

function invalid(message: string): ControlRequestError {
  return new ControlRequestError(400, 'control-request-invalid', message);
}
