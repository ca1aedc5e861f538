import { randomUUID } from 'node:crypto';

import { connectAsync } from 'mqtt';
import type { IClientOptions, IPublishPacket, ISubscriptionMap, MqttClient } from 'mqtt';
import * as z from 'zod';

import type { Operation } from './faults.ts';
import { Refused } from './world.ts';
import type { World } from './world.ts';

export interface MessagingOptions {
  /** Address of the broker. */
  readonly url: string;
  readonly topicId?: string;
  readonly client?: Pick<IClientOptions, 'username' | 'password' | 'ca' | 'protocolVersion'>;
  /** Default: any serial number may activate. */
  readonly serialNumbers?: readonly string[];
  /** Called for every request. */
  readonly onRequest?: (request: RpcRequest) => void;
}

/** A request as it arrived. */
export interface RpcRequest {
  readonly operation: ProvisioningOperation | 'unknown';
  readonly topic: string;
  readonly id: string;
  readonly method: string;
  readonly params: Readonly<Record<string, string>>;
  readonly properties: IPublishPacket['properties'];
}

/** A published reply. Default of `correlation`: the request's. */
export interface RpcReply {
  readonly text: string | Buffer;
  readonly topic?: string;
  readonly retain?: boolean;
  readonly correlation?: Buffer | 'none';
}

/** Returns the replies to publish instead of the right one, in order, possibly later. */
export type Spoil = (request: RpcRequest, right: Buffer) => readonly RpcReply[] | Promise<readonly RpcReply[]>;

export type ProvisioningOperation = Exclude<Operation, 'property' | 'setProperty' | 'postDatapoints'>;

/** interface.md, "Messaging form". */
const methods: Readonly<Record<string, ProvisioningOperation | undefined>> = {
  'things.activate': 'activate',
  'things.versions.current.get': 'currentVersion',
  'things.versions.target.get': 'targetVersion',
  'things.versions.firmware.get': 'firmware',
  'things.versions.updates.list': 'updates',
  'things.versions.switch': 'switchTo',
};

const requestSchema = z.strictObject({
  jsonrpc: z.literal('2.0'),
  id: z.string(),
  method: z.string(),
  params: z.record(z.string(), z.string()),
});

const maxRecordedRequests = 100_000;

/** Numbers of errors: interface.md shows none. Refusals have the status that the REST form answers. */
const methodNotFound = -32_601;
const invalidParams = -32_602;

/** The stand-in's other side: the provisioning operations as JSON-RPC messages, through a broker. */
export class MessagingSide implements AsyncDisposable {
  readonly requests: RpcRequest[] = [];
  readonly #world: World;
  readonly #client: MqttClient;
  readonly #options: MessagingOptions;
  readonly #spoils: { readonly operation: RpcRequest['operation'] | 'any'; readonly spoil: Spoil }[] = [];
  readonly #waiting: {
    readonly operation: RpcRequest['operation'];
    readonly resolve: (request: RpcRequest) => void;
  }[] = [];

  private constructor(world: World, client: MqttClient, options: MessagingOptions) {
    this.#world = world;
    this.#client = client;
    this.#options = options;
    client.on('message', (topic, payload, { properties, retain }) => {
      const isRequest = topic === this.activateTopic || topic === this.requestTopic;
      if (isRequest && !retain) void this.#handle(topic, payload, properties);
    });
  }

  static async start(world: World, options: MessagingOptions): Promise<MessagingSide> {
    const client = await connectAsync(options.url, {
      protocolVersion: 5,
      clientId: `stand-in-${randomUUID()}`,
      clean: false,
      reconnectPeriod: 50,
      ...(options.client?.protocolVersion === 4 ? {} : { properties: { sessionExpiryInterval: 3600 } }),
      ...options.client,
    });
    client.on('error', () => {}); // it connects again
    const side = new MessagingSide(world, client, options);
    await side.listening();
    return side;
  }

  /** Resolves when the broker knows that it listens: at the start, and after the broker has lost it. */
  async listening(): Promise<void> {
    await new Promise<void>((resolve) => {
      if (this.#client.connected) resolve();
      else this.#client.once('connect', () => resolve());
    });
    await this.#client.subscribeAsync({
      [this.activateTopic]: { qos: 1 },
      [this.requestTopic]: { qos: 1 },
      resubscribe: true,
    } as ISubscriptionMap);
  }

  get activateTopic(): string {
    return 'v1.json';
  }

  get requestTopic(): string {
    return `v1.${this.#options.topicId ?? 'a1b2'}.json`;
  }

  /** For requests that name none. */
  get replyTopic(): string {
    return `v1.${this.#options.topicId ?? 'a1b2'}.reply.json`;
  }

  /** Replaces the reply to the next such request. */
  spoilNext(operation: RpcRequest['operation'] | 'any', spoil: Spoil): void {
    this.#spoils.push({ operation, spoil });
  }

  /** Resolves as soon as the next such request has arrived. */
  async nextRequest(operation: RpcRequest['operation']): Promise<RpcRequest> {
    return new Promise((resolve) => {
      this.#waiting.push({ operation, resolve });
    });
  }

  requestsOf(operation: RpcRequest['operation']): readonly RpcRequest[] {
    return this.requests.filter((request) => request.operation === operation);
  }

  /** Passes on every later message on a topic, except a retained one. */
  async listen(topic: string, tell: (text: string) => void): Promise<void> {
    await this.#client.subscribeAsync(topic, { qos: 1 });
    this.#client.on('message', (on, payload, { retain }) => {
      if (on === topic && !retain) tell(payload.toString('utf8'));
    });
  }

  async publish(topic: string, text: string | Buffer, retain = false): Promise<void> {
    await this.#client.publishAsync(topic, text, { qos: 1, retain });
  }

  /** The right reply to a request, as it would be sent. */
  answer({ id, operation, params }: RpcRequest): Buffer {
    try {
      if (operation === 'firmware') return this.#firmware(id, params);
      const result = this.#perform(operation, params);
      return Buffer.from(JSON.stringify({ jsonrpc: '2.0', id, ...(result === undefined ? {} : { result }) }));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return Buffer.from(JSON.stringify({ jsonrpc: '2.0', id, error: { code: error.status, message: error.message } }));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.endAsync(true);
  }

  async #handle(topic: string, payload: Buffer, properties: IPublishPacket['properties']): Promise<void> {
    const parsed = requestSchema.safeParse(JSON.parse(payload.toString('utf8')));
    if (!parsed.success) return;
    const { id, method, params } = parsed.data;
    const operation = methods[method] ?? 'unknown';
    const request: RpcRequest = { operation, topic, id, method, params, properties };
    if (this.requests.length < maxRecordedRequests) this.requests.push(request);
    this.#options.onRequest?.(request);
    for (const [index, waiting] of [...this.#waiting.entries()].toReversed()) {
      if (waiting.operation !== operation) continue;
      this.#waiting.splice(index, 1);
      waiting.resolve(request);
    }
    await this.#reply(request);
  }

  async #reply(request: RpcRequest): Promise<void> {
    const index = this.#spoils.findIndex(({ operation }) => operation === 'any' || operation === request.operation);
    const [spoiled] = index === -1 ? [] : this.#spoils.splice(index, 1);
    const right = this.answer(request);
    const replies = spoiled === undefined ? [{ text: right }] : await spoiled.spoil(request, right);
    for (const reply of replies) await this.#send(request, reply);
  }

  async #send({ properties }: RpcRequest, { text, topic, retain = false, correlation }: RpcReply): Promise<void> {
    const correlationData = correlation === 'none' ? undefined : (correlation ?? properties?.correlationData);
    await this.#client.publishAsync(topic ?? properties?.responseTopic ?? this.replyTopic, text, {
      qos: 1,
      retain,
      ...(correlationData === undefined ? {} : { properties: { correlationData } }),
    });
  }

  #firmware(id: string, { thingId = '', versionId = '' }: RpcRequest['params']): Buffer {
    this.#world.thing(thingId);
    const { text } = this.#world.firmware(versionId);
    const head = Buffer.from(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":`);
    const message = Buffer.alloc(head.byteLength + text.sizeBytes + 1, '}');
    head.copy(message);
    let end = head.byteLength;
    for (const piece of text.read()) end += piece.copy(message, end);
    return message;
  }

  #perform(operation: RpcRequest['operation'], params: RpcRequest['params']): unknown {
    const { serialNumber = '', thingId = '', versionId = '' } = params;
    if (operation === 'unknown') throw new Refused(methodNotFound, 'there is no such method');
    if (operation === 'activate') return this.#activate(serialNumber);
    if (operation === 'firmware') throw new Refused(invalidParams, 'not here');
    const thing = this.#world.thing(thingId);
    switch (operation) {
      case 'currentVersion':
        return this.#world.currentVersion(thing);
      case 'targetVersion':
        return this.#world.targetVersion(thing);
      case 'updates':
        return this.#world.updates(versionId);
      case 'switchTo':
        this.#world.switchTo(thing, versionId);
        return undefined;
    }
  }

  #activate(serialNumber: string): unknown {
    if (this.#options.serialNumbers?.includes(serialNumber) === false) {
      throw new Refused(403, 'this serial number is not known');
    }
    const { thingId, apiKey } = this.#world.activate(serialNumber);
    return { thingId, apiKey };
  }
}
