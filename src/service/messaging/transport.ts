import { randomUUID } from 'node:crypto';

import type { Activation, FirmwarePosition, FirmwareText, ServiceTransport, Version } from '../contract.ts';
import type { ServiceError } from '../errors.ts';
import { malformed, readActivation, readVersion, readVersions } from '../replies.ts';
import type { BrokerContext, BrokerState } from './broker/broker.ts';
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

/** The messaging form of interface.md: one call each, one attempt each. */
export class MessagingTransport implements ServiceTransport {
  readonly #settings: MessagingSettings;
  readonly #rpc: RpcClient;

  constructor(settings: MessagingSettings, context: BrokerContext) {
    this.#settings = settings;
    this.#rpc = new RpcClient(settings, { ...context, newId: randomUUID });
  }

  /** To be woken, and to be known as online, from the first connection on. Say it before any request. */
  attend(attendant: Attendant): void {
    this.#rpc.attend(attendant);
  }

  /** Now, and from now on; else it is done for the first request. */
  connect(): void {
    this.#rpc.broker.connect();
  }

  get report(): BrokerReport {
    const { broker, ignored } = this.#rpc;
    const { state, problem, refusal } = broker;
    return { url: this.#settings.url, state, problem: problem ?? refusal, ignored: ignored.counts };
  }

  async activate(serialNumber: string, signal: AbortSignal): Promise<Activation> {
    const call = {
      operation: 'activation',
      topic: this.#settings.topics.activate,
      method: 'things.activate',
      params: { serialNumber },
      isRepeatable: false,
      isLarge: false,
    };
    return readActivation(parseResult(await this.#rpc.call(call, signal), call), call.operation);
  }

  async currentVersion(thing: Activation, signal: AbortSignal): Promise<Version> {
    const call = this.#request(thing, 'current version', 'things.versions.current.get');
    return readVersion(parseResult(await this.#rpc.call(call, signal), call), call.operation);
  }

  async targetVersion(thing: Activation, signal: AbortSignal): Promise<Version> {
    const call = this.#request(thing, 'target version', 'things.versions.target.get');
    return readVersion(parseResult(await this.#rpc.call(call, signal), call), call.operation);
  }

  async updates(thing: Activation, versionId: string, signal: AbortSignal): Promise<readonly Version[]> {
    const operation = `updates from version ${shown(versionId)}`;
    const call = this.#request(thing, operation, 'things.versions.updates.list', { versionId });
    return readVersions(parseResult(await this.#rpc.call(call, signal), call), operation);
  }

  /** Any reply without an error is consent. */
  async switchTo(thing: Activation, versionId: string, signal: AbortSignal): Promise<void> {
    const operation = `switch to version ${shown(versionId)}`;
    await this.#rpc.call(this.#request(thing, operation, 'things.versions.switch', { versionId }), signal);
  }

  /** Always from the beginning: a message comes whole or not at all. */
  async firmware(
    thing: Activation,
    versionId: string,
    _from: FirmwarePosition | undefined,
    signal: AbortSignal,
  ): Promise<FirmwareText> {
    const operation = `firmware of version ${shown(versionId)}`;
    const request = this.#request(thing, operation, 'things.versions.firmware.get', { versionId });
    const result = await this.#rpc.call({ ...request, isLarge: true }, signal);
    if (result === undefined) throw malformed(operation, 'the reply has no result');
    return firmwareText(result, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#rpc[Symbol.asyncDispose]();
  }

  #request(
    { thingId, apiKey }: Activation,
    operation: string,
    method: string,
    others: RpcCall['params'] = {},
  ): RpcCall {
    return {
      operation,
      topic: this.#settings.topics.request,
      method,
      params: { thingId, ...others },
      isRepeatable: true,
      isLarge: false,
      secret: apiKey,
    };
  }
}

/** The text as it lies in the message, from quotation mark to quotation mark: whoever reads it judges it. */
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

/** An id in a message: without control characters, and not endless. */
function shown(id: string): string {
  return id.replace(/\p{C}/gu, '?').slice(0, 64);
}
