import { randomUUID } from 'node:crypto';

import { releaseMemory } from '../../system/files/release-memory.ts';
import type { FirmwareTransfer, WirePosition } from '../../update/ports.ts';
import type { ServiceTransport, TransportDeps, WithThing } from '../contract.ts';
import type { ServiceError } from '../errors.ts';
import { operations, paramsOf, textOf, titleOf } from '../operations.ts';
import type { Input, Operation, Row } from '../operations.ts';
import { malformed } from '../replies.ts';
import type { BrokerState } from './broker/broker.ts';
import type { IgnoredCounts } from './broker/ignored.ts';
import type { RpcCall } from './pending-request.ts';
import { RpcClient } from './rpc-client.ts';
import type { MessagingHandlers } from './rpc-client.ts';
import type { MessagingSettings } from './settings.ts';

export interface BrokerReport {
  readonly url: string;
  readonly state: BrokerState;
  /** The reason for a missing connection, or a topic that is not permitted on it. */
  readonly problem: ServiceError | undefined;
  readonly ignored: IgnoredCounts;
}

/** The service in the messaging form of interface.md. */
export class MessagingTransport implements ServiceTransport {
  readonly #settings: MessagingSettings;
  readonly #rpc: RpcClient;

  constructor(settings: MessagingSettings, deps: TransportDeps) {
    this.#settings = settings;
    this.#rpc = new RpcClient(settings, { ...deps, newId: randomUUID });
  }

  /**
   * Publishes the status and subscribes to the wake topic, from the first connection on. Call this before any request.
   */
  attend(attendant: MessagingHandlers): void {
    this.#rpc.start(attendant);
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
    const value = operation.reply.form === 'consent' ? undefined : required(result, call);
    return operation.reply.read(value, call.operation);
  }

  /** Reads an encoded firmware image, always from the beginning: a message arrives entirely or not at all. */
  async firmware(
    versionId: string,
    withThing: WithThing,
    _from: WirePosition | undefined,
    signal: AbortSignal,
  ): Promise<FirmwareTransfer> {
    return withThing(async (thing) => {
      const call = this.#callOf(operations.firmware, { ...thing, versionId });
      return firmwareText(required(await this.#rpc.call(call, signal), call), signal);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#rpc[Symbol.asyncDispose]();
  }

  #callOf(operation: Row, input: Input): RpcCall {
    const { topics } = this.#settings;
    if (operation.rpc === undefined) throw new Error(`${operation.title} is available only in REST form`);
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

const CHUNK_BYTES = 256 * 1024;

/** The text in the message, from quotation mark to quotation mark; its reader judges it. */
function firmwareText(result: unknown, signal: AbortSignal): FirmwareTransfer {
  const isLong = Buffer.isBuffer(result);
  const text = isLong ? result : Buffer.from(JSON.stringify(result));
  async function* chunks(): AsyncGenerator<Uint8Array, void, undefined> {
    for (let start = 0; start < text.byteLength; start += CHUNK_BYTES) {
      signal.throwIfAborted();
      yield text.subarray(start, start + CHUNK_BYTES);
    }
  }
  return {
    startOffset: 0,
    totalBytes: text.byteLength,
    validator: undefined,
    chunks: chunks(),
    // all of the message, which may be 64 MiB, and before the next garbage collection
    [Symbol.asyncDispose]: async () => (isLong ? releaseMemory(new Uint8Array(text.buffer)) : undefined),
  };
}

function required(result: unknown, { operation }: RpcCall): unknown {
  if (result === undefined) throw malformed(operation, 'the reply has no result');
  return result;
}
