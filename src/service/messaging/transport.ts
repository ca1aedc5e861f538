import { randomUUID } from 'node:crypto';

import type { FirmwarePosition, FirmwareText, OfVersion, ServiceTransport } from '../contract.ts';
import type { ServiceError } from '../errors.ts';
import { operations, paramsOf, textOf, titleOf } from '../operations.ts';
import type { Input, Operation, Row } from '../operations.ts';
import { malformed } from '../replies.ts';
import type { BrokerDeps, BrokerState } from './broker/broker.ts';
import type { IgnoredCounts } from './broker/ignored.ts';
import { parseJson } from './json-members.ts';
import type { RpcCall } from './pending-request.ts';
import type { PayloadRange } from './reply.ts';
import { RpcClient } from './rpc-client.ts';
import type { Attendant } from './rpc-client.ts';
import type { MessagingSettings } from './settings.ts';

export interface BrokerReport {
  readonly url: string;
  readonly state: BrokerState;
  /** Why there is no connection, or what is not permitted on it. */
  readonly problem: ServiceError | undefined;
  readonly ignored: IgnoredCounts;
}

/** The service in the messaging form of interface.md. */
export class MessagingTransport implements ServiceTransport {
  readonly #settings: MessagingSettings;
  readonly #rpc: RpcClient;

  constructor(settings: MessagingSettings, deps: BrokerDeps) {
    this.#settings = settings;
    this.#rpc = new RpcClient(settings, { ...deps, newId: randomUUID });
  }

  /**
   * Publishes the status and subscribes to the wake topic, from the first connection on. Call this before any request.
   */
  attend(attendant: Attendant): void {
    this.#rpc.attend(attendant);
  }

  /** Connects now and stays connected; otherwise the first request does that. */
  connect(): void {
    this.#rpc.broker.connect();
  }

  get report(): BrokerReport {
    const { broker, ignored } = this.#rpc;
    const { state, problem, refusal } = broker;
    return { url: this.#settings.url, state, problem: problem ?? refusal, ignored: ignored.counts };
  }

  async call<I extends Input, O>(operation: Operation<I, O>, input: I, signal: AbortSignal): Promise<O> {
    const call = this.#callOf(operation, input);
    const result = await this.#rpc.call(call, signal);
    const value = operation.reply.form === 'consent' ? undefined : parseResult(result, call);
    return operation.reply.read(value, call.operation);
  }

  /** Reads a firmware, always from the beginning: a message arrives entirely or not at all. */
  async firmware(input: OfVersion, _from: FirmwarePosition | undefined, signal: AbortSignal): Promise<FirmwareText> {
    const call = this.#callOf(operations.firmware, input);
    const result = await this.#rpc.call(call, signal);
    if (result === undefined) throw malformed(call.operation, 'the reply has no result');
    return firmwareText(result, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#rpc[Symbol.asyncDispose]();
  }

  #callOf(operation: Row, input: Input): RpcCall {
    const { topics } = this.#settings;
    if (operation.rpc === undefined) throw new Error(`${operation.title} is only spoken of in REST form`);
    return {
      operation: titleOf(operation, input),
      topic: operation.key === 'none' ? topics.activate : topics.request,
      method: operation.rpc,
      params: paramsOf(operation, input),
      isRepeatable: operation.isRepeatable,
      isLarge: operation.reply.form === 'stream',
      secret: 'apiKey' in input ? textOf(input, 'apiKey') : undefined,
    };
  }
}

/** The text in the message, from quotation mark to quotation mark. Whoever reads it judges it. */
function firmwareText({ payload, start, end }: PayloadRange, signal: AbortSignal): FirmwareText {
  async function* chunks(): AsyncGenerator<Uint8Array, void, undefined> {
    for (const chunk of payload.consume(start, end)) {
      signal.throwIfAborted();
      yield chunk;
    }
  }
  return {
    startOffset: 0,
    totalBytes: end - start,
    validator: undefined,
    chunks: chunks(),
    [Symbol.asyncDispose]: async () => payload.release(),
  };
}

function parseResult(result: PayloadRange | undefined, { operation }: RpcCall): unknown {
  if (result === undefined) throw malformed(operation, 'the reply has no result');
  const value = parseJson(result.payload.join(result.start, result.end));
  if (value === undefined) throw malformed(operation, 'the result of the reply is not JSON in UTF-8');
  return value;
}
