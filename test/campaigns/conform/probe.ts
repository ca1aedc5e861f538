import { pathOf } from '../../../src/service/operations.ts';
import type { Input, Row } from '../../../src/service/operations.ts';
import { EXCERPT_CHARACTERS, Exchanges } from './exchanges.ts';
import type { Draft } from './exchanges.ts';
import { Finding, fail } from './verdict.ts';

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Buffer;
}

export interface CallOptions {
  /** The API key to send; omitted if the request has none. */
  readonly key?: string | undefined;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * Takes the body instead of `Reply.body`, which is then empty. Returns false to stop reading. Each chunk restarts the
   * timeout.
   */
  readonly onChunk?: (chunk: Uint8Array, reply: Pick<Reply, 'status' | 'headers'>) => boolean;
}

/** As the agent: src/service/rest/settings.ts. */
const MAX_BODY_BYTES = 1024 * 1024;

/** Sends requests as a gateway does, and records them. */
export class Probe {
  readonly #base: string;
  readonly #timeoutMs: number;
  readonly exchanges = new Exchanges();

  constructor(url: string, timeoutMs: number) {
    this.#base = url.replace(/\/+$/, '');
    this.#timeoutMs = timeoutMs;
  }

  /** Throws a failure if no complete response arrives. */
  async call(row: Row, input: Input, options: CallOptions = {}): Promise<Reply> {
    const { body } = options;
    const headers = headersOf(options);
    const url = `${this.#base}${pathOf(row, input)}`;
    const aborter = new AbortController();
    const why = `nothing arrived for ${this.#timeoutMs / 1000} s`;
    const timer = setTimeout(() => aborter.abort(new Error(why)), this.#timeoutMs);
    const record: Draft = { request: `${row.method} ${url}`, requestHeaders: headers, requestBody: body };
    this.exchanges.add(record);
    try {
      const init = { method: row.method, headers, redirect: 'manual', signal: aborter.signal } as const;
      const response = await fetch(url, { ...init, ...(body === undefined ? {} : { body }) });
      const { status, headers: received } = response;
      record.status = status;
      record.responseHeaders = Object.fromEntries(received);
      const chunks: Uint8Array[] = [];
      const take = options.onChunk ?? bounded(chunks);
      for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
        record.responseBody = extend(record.responseBody ?? '', chunk);
        if (options.onChunk !== undefined) timer.refresh();
        if (!take(chunk, { status, headers: received })) break;
      }
      return { status, headers: received, body: Buffer.concat(chunks) };
    } catch (error) {
      if (error instanceof Finding) throw error;
      record.error = reasonOf(error);
      fail(`${record.status === undefined ? 'there is no response' : 'the response is incomplete'}: ${record.error}`);
    } finally {
      clearTimeout(timer);
    }
  }
}

function headersOf({ key, body, headers }: CallOptions): Readonly<Record<string, string>> {
  return {
    'accept-encoding': 'identity',
    ...(key === undefined ? {} : { 'x-apikey': key }),
    ...(body === undefined ? {} : { 'content-type': 'text/json; charset=UTF-8' }),
    ...headers,
  };
}

function bounded(chunks: Uint8Array[]): (chunk: Uint8Array) => boolean {
  let size = 0;
  return (chunk) => {
    chunks.push(chunk);
    size += chunk.byteLength;
    if (size > MAX_BODY_BYTES) fail(`the body is longer than ${MAX_BODY_BYTES} bytes`);
    return true;
  };
}

function extend(excerpt: string, { buffer, byteOffset, byteLength }: Uint8Array): string {
  const left = EXCERPT_CHARACTERS - excerpt.length;
  return excerpt + Buffer.from(buffer, byteOffset, Math.min(byteLength, left)).toString('utf8');
}

/** Returns the messages of the error and its cause: the message of `fetch` is only "fetch failed". */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) throw error;
  const { message, cause } = error;
  if (!(cause instanceof Error)) return message;
  const code: unknown = Reflect.get(cause, 'code');
  if (code === 'ERR_SSL_WRONG_VERSION_NUMBER')
    return `${message}: the port does not speak TLS. For plain HTTP, use http://`;
  return `${message}: ${cause.message || String(code)}`;
}
