import type { Log } from '../../system/log/log.ts';
import type { Clock } from '../../system/time/clock.ts';
import { Deadline } from '../../system/time/deadline.ts';
import type { FirmwarePosition, FirmwareText, OfVersion, ServiceTransport } from '../contract.ts';
import { ServiceError } from '../errors.ts';
import { operations, pathOf, textOf, titleOf } from '../operations.ts';
import type { Input, Operation, Row } from '../operations.ts';
import { malformed, readJson, readJsonOrText } from '../replies.ts';
import type { Throttle } from '../throttle.ts';
import type { Traffic } from '../traffic.ts';
import type { Exchange } from './exchange.ts';
import { FirmwareDownload } from './firmware-download.ts';
import { HttpClient } from './http-client.ts';
import { maxBeginningBytes, maxBeginningMs, maxReplyBytes } from './settings.ts';
import type { RestSettings } from './settings.ts';
import { errorOfStatus, excerptOf, serviceTimeMs } from './statuses.ts';

export interface RestDeps {
  readonly clock: Clock;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  readonly log: Log;
  /** Called with the time that the service's clock shows (milliseconds since the epoch), for each successful reply. */
  readonly onServiceTime?: ((atMs: number) => void) | undefined;
  /** Bounds the rate of firmware; undefined: full speed. */
  readonly throttle?: Throttle | undefined;
  /** Counts what the connections carry. */
  readonly traffic?: Traffic | undefined;
}

interface Call {
  /** The name of the operation for messages. */
  readonly operation: string;
  readonly method: 'GET' | 'PUT' | 'POST';
  readonly path: string;
  readonly body?: string | undefined;
  /** The key to send; undefined: this call sends none; `activation`: there cannot be one yet. */
  readonly key: { readonly apiKey: string | undefined } | 'activation';
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
    if (operation.reply.form === 'consent') {
      await this.#tell(call, signal);
      return operation.reply.read(undefined, call.operation);
    }
    const body = await this.#ask(call, signal);
    const read = operation.reply.form === 'json' ? readJson : readJsonOrText;
    return operation.reply.read(read(body, call.operation), call.operation);
  }

  async firmware(input: OfVersion, from: FirmwarePosition | undefined, signal: AbortSignal): Promise<FirmwareText> {
    const call = this.#callOf(operations.firmware, input);
    const request = async (range: { offset: number; validator: string } | undefined, textSignal: AbortSignal) => {
      const headers = range && { range: `bytes=${range.offset}-`, 'if-range': range.validator };
      const exchange = await this.#http.send({ ...call, headers: { ...keyHeader(call), ...headers } }, textSignal);
      const isPart = exchange.status === 206 || exchange.status === 416;
      if (range === undefined ? isSuccess(exchange.status) && !isPart : isSuccess(exchange.status) || isPart) {
        return exchange;
      }
      throw await this.#refusal(call, exchange);
    };
    const { resume, deadlines } = this.#settings;
    const deps = { ...this.#deps, operation: call.operation, request, resume, deadlineMs: deadlines.transferMs };
    return FirmwareDownload.open(deps, from, signal);
  }

  /** Opens a connection and asks nothing on it. Throws a ServiceError if none comes about. */
  async reach(signal: AbortSignal): Promise<void> {
    await this.#http.reach(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#http[Symbol.asyncDispose]();
  }

  /** Makes a call whose reply matters. Returns the whole body; every 2xx status is a success. */
  async #ask(call: Call, signal: AbortSignal): Promise<Uint8Array> {
    using deadline = this.#wholeDeadline(call, signal);
    await using exchange = await this.#send(call, deadline.signal);
    const chunks: Uint8Array[] = [];
    let room = maxReplyBytes;
    for await (const chunk of exchange.chunks()) {
      room -= chunk.byteLength;
      chunks.push(new Uint8Array(chunk));
      if (room >= 0) continue;
      const why = `the reply is longer than ${maxReplyBytes} bytes`;
      throw new ServiceError({ code: 'reply-too-large', operation: call.operation, why });
    }
    return Buffer.concat(chunks);
  }

  /** Makes a call whose success matters: every 2xx status is one, and the body is ignored. */
  async #tell(call: Call, signal: AbortSignal): Promise<void> {
    using deadline = this.#wholeDeadline(call, signal);
    await using exchange = await this.#send(call, deadline.signal);
    await readBeginning(exchange);
  }

  #wholeDeadline({ operation }: Call, signal: AbortSignal): Deadline {
    const why = 'the whole call took longer than its deadline';
    const late = (): ServiceError => new ServiceError({ code: 'silent-whole', operation, why });
    return new Deadline(this.#settings.deadlines.wholeMs, late, signal);
  }

  async #send(call: Call, signal: AbortSignal): Promise<Exchange> {
    const contentType = call.body === undefined ? undefined : { 'content-type': 'text/json; charset=UTF-8' };
    const exchange = await this.#http.send({ ...call, headers: { ...keyHeader(call), ...contentType } }, signal);
    if (!isSuccess(exchange.status)) throw await this.#refusal(call, exchange);
    const serviceMs = serviceTimeMs(exchange.headers);
    if (serviceMs !== undefined) this.#deps.onServiceTime?.(serviceMs);
    return exchange;
  }

  /** The error for a reply that is not a success. Disposes the exchange. */
  async #refusal(call: Call, reply: Exchange): Promise<ServiceError> {
    const { operation, key } = call;
    await using exchange = reply;
    const { status, headers } = exchange;
    if (isSuccess(status)) return malformed(operation, `the status ${status} was not asked for`);
    const sent = key === 'activation' ? undefined : key.apiKey;
    const excerpt = excerptOf(await readBeginning(exchange), sent);
    const keyState = key === 'activation' ? 'activation' : sent === undefined ? 'not-sent' : 'sent';
    const place = this.#http.placeOf(call);
    return errorOfStatus({ operation, status, place, headers, excerpt, key: keyState }, this.#deps.clock.nowMs());
  }

  #callOf(operation: Row, input: Input): Call {
    const { keyOnProvisioning, propertyText } = this.#settings;
    const isKeySent = operation.key === 'always' || keyOnProvisioning;
    const title = titleOf(operation, input);
    const value: unknown = Reflect.get(input, 'value');
    const isPlain = operation.body?.form === 'json-or-text' && propertyText === 'plain';
    const text = (): string => (isPlain && typeof value === 'string' ? value : toJson(value, title));
    return {
      operation: title,
      method: operation.method,
      path: pathOf(operation, input),
      key: operation.key === 'none' ? 'activation' : { apiKey: isKeySent ? textOf(input, 'apiKey') : undefined },
      body: operation.body && text(),
    };
  }
}

function keyHeader({ key }: Call): Readonly<Record<string, string>> {
  return key === 'activation' || key.apiKey === undefined ? {} : { 'x-apikey': key.apiKey };
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

/** The beginning of an unimportant body, as much as arrives soon. */
async function readBeginning(exchange: Exchange): Promise<Uint8Array> {
  const enough = new ServiceError({ code: 'silent-whole', why: 'the rest is not waited for' });
  const timer = setTimeout(() => exchange.abandon(enough), maxBeginningMs);
  const chunks: Uint8Array[] = [];
  let room = maxBeginningBytes;
  try {
    for await (const chunk of exchange.chunks()) {
      chunks.push(new Uint8Array(chunk.subarray(0, room)));
      room -= chunk.byteLength;
      if (room <= 0) break;
    }
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
  } finally {
    clearTimeout(timer);
  }
  return Buffer.concat(chunks);
}

function toJson(value: unknown, operation: string): string {
  let why = 'the value cannot be written as JSON';
  try {
    const text: string | undefined = JSON.stringify(value);
    if (text !== undefined) return text;
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    why = `${why}: ${error.message}`;
  }
  throw new ServiceError({ code: 'value-unusable', operation, why });
}
