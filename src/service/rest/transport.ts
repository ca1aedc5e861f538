import { JsonText } from '../../system/json-value.ts';
import { Deadline } from '../../system/time/deadline.ts';
import type { FirmwareTransfer, WirePosition } from '../../update/ports.ts';
import type { Activation, ServiceTransport, TransportDeps, WithThing } from '../contract.ts';
import { ServiceError } from '../errors.ts';
import type { ServiceErrorCode } from '../errors.ts';
import { operations, pathOf, textOf, titleOf } from '../operations.ts';
import type { Input, Operation, Row } from '../operations.ts';
import { malformed, readJson, readJsonOrText } from '../replies.ts';
import type { Exchange } from './exchange.ts';
import { FirmwareDownload } from './firmware-download.ts';
import type { TextReply } from './firmware-download.ts';
import { HttpClient } from './http-client.ts';
import type { HttpRequest } from './http-client.ts';
import type { TextRange } from './range-response.ts';
import { maxBeginningBytes, maxBeginningMs, maxReplyBytes } from './settings.ts';
import type { RestSettings } from './settings.ts';
import { errorOfStatus, excerptOf, serviceTimeMs } from './statuses.ts';
import type { Refusal } from './statuses.ts';
import { mayBeWebPage } from './web-page.ts';

export interface RestDeps extends TransportDeps {
  /** Called with the time that the service's clock shows (milliseconds since the epoch), for each reply of its own, except a failure. */
  readonly onServiceTime?: ((atMs: number) => void) | undefined;
}

interface Call extends HttpRequest {
  readonly key: Refusal['key'];
  /** The API key, which no message may contain. */
  readonly secret: string | undefined;
}

/** The service in the REST form of interface.md. */
export class RestTransport implements ServiceTransport {
  readonly #settings: RestSettings;
  readonly #deps: RestDeps;
  readonly #http: HttpClient;

  constructor(settings: RestSettings, deps: RestDeps) {
    this.#settings = settings;
    this.#deps = deps;
    this.#http = new HttpClient(settings, deps);
  }

  async call<I extends Input, O>(operation: Operation<I, O>, input: I, signal: AbortSignal): Promise<O> {
    const call = this.#callOf(operation, input);
    const why = 'the whole call took longer than its deadline';
    const late = (): ServiceError => new ServiceError({ code: 'total-timeout', operation: call.operation, why });
    using deadline = new Deadline(this.#settings.deadlines.totalMs, late, signal);
    await using exchange = await this.#http.send(call, deadline.signal);
    if (!isSuccess(exchange.status)) throw await this.#refusal(call, exchange);
    if (operation.reply.form === 'consent') {
      await this.#readConsent(call, exchange);
      return operation.reply.read(undefined, call.operation);
    }
    const body = await this.#readBody(call, exchange, operation.reply.form === 'json' ? /^[[{]/ : undefined);
    const read = operation.reply.form === 'json' ? readJson : readJsonOrText;
    return operation.reply.read(read(body, call.operation), call.operation);
  }

  async firmware(
    versionId: string,
    withThing: WithThing,
    from: WirePosition | undefined,
    signal: AbortSignal,
  ): Promise<FirmwareTransfer> {
    const { resume, deadlines } = this.#settings;
    const deps = {
      ...this.#deps,
      operation: titleOf(operations.firmware, { versionId }),
      request: async (range: TextRange | undefined, textSignal: AbortSignal) =>
        withThing(async (thing) => this.#requestText({ ...thing, versionId }, range, textSignal)),
      resume,
      deadlineMs: deadlines.transferMs,
    };
    return FirmwareDownload.open(deps, from, signal);
  }

  async #requestText(
    input: Activation & { readonly versionId: string },
    range: TextRange | undefined,
    signal: AbortSignal,
  ): Promise<TextReply> {
    const call = this.#callOf(operations.firmware, input);
    const headers = range && { range: `bytes=${range.offset}-`, 'if-range': range.validator };
    const exchange = await this.#http.send({ ...call, headers: { ...call.headers, ...headers } }, signal);
    const isPart = exchange.status === 206 || exchange.status === 416;
    if (isPart ? range !== undefined : isSuccess(exchange.status))
      return this.#withoutPage(call, exchange, !isPart && range !== undefined);
    throw await this.#refusal(call, exchange);
  }

  /** Opens a connection and asks nothing on it. Throws a ServiceError if none comes about. */
  async reach(signal: AbortSignal): Promise<void> {
    await this.#http.reach(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#http[Symbol.asyncDispose]();
  }

  /** Returns the whole body of a reply that matters. Every 2xx status is a success, but not a web page. */
  async #readBody(call: Call, exchange: Exchange, jsonStart: RegExp | undefined): Promise<Uint8Array> {
    const chunks: Uint8Array[] = [];
    let room = maxReplyBytes;
    for await (const chunk of exchange.chunks()) {
      room -= chunk.byteLength;
      chunks.push(new Uint8Array(chunk));
      if (room >= 0) continue;
      const why = `the reply is longer than ${maxReplyBytes} bytes`;
      throw new ServiceError({ code: 'reply-too-large', operation: call.operation, why });
    }
    const body = Buffer.concat(chunks);
    this.#accept(call, exchange, body, jsonStart);
    return body;
  }

  /** Accepts 204, and any other 2xx status that cannot come with a web page. */
  async #readConsent(call: Call, exchange: Exchange): Promise<void> {
    const { bytes, failure } = await readBeginning(exchange);
    if (exchange.status !== 204 && bytes.byteLength === 0 && failure !== undefined) throw failure;
    this.#accept(call, exchange, exchange.status === 204 ? undefined : bytes);
  }

  /** Throws `reply-web-page`, or notes the time of a reply that is the service's. `body`: undefined if there is none. */
  #accept(call: Call, exchange: Exchange, body: Uint8Array | undefined, jsonStart?: RegExp): void {
    if (body !== undefined && mayBeWebPage(exchange.headers, body, jsonStart))
      throw this.#errorOf(call, exchange, body, 'reply-web-page');
    this.#noteTime(exchange);
  }

  #noteTime({ headers }: Exchange): void {
    const serviceMs = serviceTimeMs(headers);
    if (serviceMs !== undefined) this.#deps.onServiceTime?.(serviceMs);
  }

  /** Returns the reply with encoded firmware, and refuses a web page. */
  async #withoutPage(call: Call, exchange: Exchange, isReplay: boolean): Promise<TextReply> {
    const chunks = this.#firmwareChunks(call, exchange);
    // a page must not be compared with the earlier data: it would count as a changed firmware image
    const first = isReplay ? await chunks.next() : undefined;
    async function* all(): AsyncGenerator<Uint8Array, void, undefined> {
      if (first?.done === false) yield first.value;
      yield* chunks;
    }
    return {
      status: exchange.status,
      header: (name) => exchange.header(name),
      chunks: all,
      [Symbol.asyncDispose]: async () => exchange[Symbol.asyncDispose](),
    };
  }

  /** Throws `reply-web-page`, and disposes the exchange then. */
  async *#firmwareChunks(call: Call, exchange: Exchange): AsyncGenerator<Uint8Array, void, undefined> {
    let isBegun = exchange.status === 206 || exchange.status === 416;
    const begin = async (chunk: Uint8Array): Promise<void> => {
      if (isBegun || !mayBeWebPage(exchange.headers, chunk, /^"/)) return;
      const page = this.#errorOf(call, exchange, chunk, 'reply-web-page');
      await exchange[Symbol.asyncDispose]();
      throw page;
    };
    for await (const chunk of exchange.chunks()) {
      await begin(chunk);
      isBegun = true;
      yield chunk;
    }
    await begin(new Uint8Array());
  }

  /** The error for a reply that is not a success. Disposes the exchange. */
  async #refusal(call: Call, reply: Exchange): Promise<ServiceError> {
    await using exchange = reply;
    const { status } = exchange;
    if (isSuccess(status)) return malformed(call.operation, `the status ${status} was not asked for`);
    const { bytes } = await readBeginning(exchange);
    const refusal = this.#errorOf(call, exchange, bytes);
    if (refusal.isAnswer && status < 500 && !mayBeWebPage(exchange.headers, bytes)) this.#noteTime(exchange);
    return refusal;
  }

  #errorOf(call: Call, { status, headers }: Exchange, body: Uint8Array, code?: ServiceErrorCode): ServiceError {
    const { operation, key, secret } = call;
    const refusal = {
      operation,
      status,
      headers,
      key,
      place: this.#http.placeOf(call),
      excerpt: excerptOf(body, secret),
    };
    return errorOfStatus(refusal, this.#deps.clock.nowMs(), code);
  }

  #callOf(operation: Row, input: Input): Call {
    const { keyOnProvisioning, propertyText } = this.#settings;
    const isKeySent = operation.key === 'always' || (operation.key === 'provisioning' && keyOnProvisioning);
    const secret = isKeySent ? textOf(input, 'apiKey') : undefined;
    const title = titleOf(operation, input);
    const isPlain = operation.body?.form === 'json-or-text' && propertyText === 'plain';
    const body = operation.body && bodyText(Reflect.get(input, 'value'), isPlain, title);
    return {
      operation: title,
      method: operation.method,
      path: pathOf(operation, input),
      headers: {
        ...(secret !== undefined && { 'x-apikey': secret }),
        ...(body !== undefined && { 'content-type': 'text/json; charset=UTF-8' }),
      },
      body,
      key: operation.key === 'none' ? 'activation' : isKeySent ? 'sent' : 'not-sent',
      secret,
    };
  }
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

interface Beginning {
  readonly bytes: Uint8Array;
  /** The reason why there is no more. Omitted if the rest was not needed, or there is none. */
  readonly failure: ServiceError | undefined;
}

/** The beginning of an unimportant body, as much as arrives soon. */
async function readBeginning(exchange: Exchange): Promise<Beginning> {
  const enough = new ServiceError({ code: 'total-timeout', why: 'the rest is not waited for' });
  const timer = setTimeout(() => exchange.abandon(enough), maxBeginningMs);
  const chunks: Uint8Array[] = [];
  let room = maxBeginningBytes;
  let failure: ServiceError | undefined;
  try {
    for await (const chunk of exchange.chunks()) {
      chunks.push(new Uint8Array(chunk.subarray(0, room)));
      room -= chunk.byteLength;
      if (room <= 0) break;
    }
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    failure = error;
  } finally {
    clearTimeout(timer);
  }
  return { bytes: Buffer.concat(chunks), failure };
}

/** Returns a value as JSON, or a string as it is if plain text is wanted. */
function bodyText(value: unknown, isPlain: boolean, operation: string): string {
  if (isPlain) {
    const plain: unknown = value instanceof JsonText && value.text.startsWith('"') ? JSON.parse(value.text) : value;
    if (typeof plain === 'string') return plain;
  }
  if (value instanceof JsonText) return value.text;
  let why = 'the value cannot be written as JSON';
  try {
    const text: string | undefined = JSON.stringify(value);
    if (text !== undefined) return text;
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    why = `${why}: ${error.message}`;
  }
  throw new ServiceError({ code: 'value-invalid', operation, why });
}
