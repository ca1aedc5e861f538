import { randomUUID } from 'node:crypto';

import { connectAsync } from 'mqtt';
import type { IPublishPacket, ISubscriptionMap, MqttClient } from 'mqtt';

import { readReply } from '../../../src/service/messaging/reply.ts';
import type { RpcFailure } from '../../../src/service/messaging/reply.ts';
import { paramsOf } from '../../../src/service/operations.ts';
import type { Input, Row } from '../../../src/service/operations.ts';
import { EXCERPT_CHARACTERS, Exchanges } from './exchanges.ts';
import type { Draft } from './exchanges.ts';
import { Finding, fail } from './verdict.ts';

export interface MessagingOptions {
  /** The address of the broker, with user and password if it demands them. */
  readonly url: string;
  readonly topicId: string;
  /** Omitted: as the agent has it by default. */
  readonly replyTopic?: string | undefined;
  readonly protocolVersion: 4 | 5;
}

/** A reply that the agent accepts. */
export interface RpcReply {
  /** Omitted if the reply has none. */
  readonly result: unknown;
  readonly failure: RpcFailure | undefined;
  readonly hasCorrelation: boolean;
  readonly bytes: number;
}

interface Pending {
  readonly id: string;
  readonly topic: string;
  readonly record: Draft;
  readonly resolve: (reply: RpcReply) => void;
  readonly reject: (error: unknown) => void;
}

/** Sends requests in messaging form as a gateway does, and records them. */
export class MessagingProbe implements AsyncDisposable {
  readonly exchanges: Exchanges;
  readonly hasCorrelation: boolean;
  readonly #client: MqttClient;
  readonly #topics: { readonly activate: string; readonly request: string; readonly reply: string };
  readonly #timeoutMs: number;
  #pending: Pending | undefined;
  #retained: Draft | undefined;
  /** The topics whose requests had replies. */
  readonly #answered = new Set<string>();

  private constructor(
    client: MqttClient,
    { topicId, replyTopic, protocolVersion }: MessagingOptions,
    timeoutMs: number,
    exchanges: Exchanges,
  ) {
    this.#client = client;
    this.#timeoutMs = timeoutMs;
    this.exchanges = exchanges;
    this.hasCorrelation = protocolVersion === 5;
    // the defaults of src/service/settings.ts
    this.#topics = {
      activate: 'v1.json',
      request: `v1.${topicId}.json`,
      reply: replyTopic ?? `v1.${topicId}.reply.json`,
    };
    client.on('message', (_topic, payload, packet) => this.#receive(payload, packet));
  }

  /** Throws a failure if the broker does not accept the connection and the subscription. */
  static async connect(
    options: MessagingOptions,
    timeoutMs: number,
    exchanges = new Exchanges(),
  ): Promise<MessagingProbe> {
    const address = new URL(options.url);
    const { username, password } = address;
    // MQTT.js would split them at the last colon
    [address.username, address.password] = ['', ''];
    for (const secret of [password, decodeURIComponent(password)]) if (secret !== '') exchanges.hide(secret);
    try {
      const client = await connectAsync(
        address.href,
        {
          protocolVersion: options.protocolVersion,
          clientId: `conform-${randomUUID()}`,
          connectTimeout: timeoutMs,
          reconnectPeriod: 0,
          ...(username === ''
            ? {}
            : { username: decodeURIComponent(username), password: decodeURIComponent(password) }),
        },
        false,
      );
      client.on('error', () => {}); // the request that waits reports its timeout
      const probe = new MessagingProbe(client, options, timeoutMs, exchanges);
      await client.subscribeAsync(probe.#topics.reply, { qos: 1 });
      return probe;
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      fail(`the broker does not accept the connection: ${error.message || error.name}`);
    }
  }

  /** Throws a failure if no reply arrives that the agent accepts. */
  async call(row: Row, input: Input): Promise<RpcReply> {
    const id = randomUUID();
    const topic = row.key === 'none' ? this.#topics.activate : this.#topics.request;
    const text = JSON.stringify({ jsonrpc: '2.0', id, method: row.rpc, params: paramsOf(row, input) });
    const properties = this.hasCorrelation
      ? { responseTopic: this.#topics.reply, correlationData: Buffer.from(id), contentType: 'application/json' }
      : undefined;
    const requestHeaders =
      properties === undefined ? {} : { 'response-topic': this.#topics.reply, 'correlation-data': id };
    const record: Draft = { request: `PUBLISH ${topic}`, requestHeaders, requestBody: text };
    this.exchanges.add(record);
    const { promise, resolve, reject } = Promise.withResolvers<RpcReply>();
    this.#pending = { id, topic, record, resolve, reject };
    const timer = setTimeout(() => {
      const missing = `no reply arrived on ${this.#topics.reply} within ${this.#timeoutMs / 1000} s`;
      const where = this.hasCorrelation
        ? 'the response topic of the request'
        : 'the reply_topic of its configuration (here --reply-topic)';
      const isIgnored = record.error !== undefined;
      const isReplyTopicUnknown = !isIgnored && this.#answered.size === 0;
      const isTopicUnknown = !isIgnored && this.#answered.size > 0 && !this.#answered.has(topic);
      record.error = isIgnored ? `${missing} that the agent accepts: ${record.error}` : missing;
      const hint = isTopicUnknown ? `. No request on ${topic} had a reply yet: check --topic-id` : '';
      reject(new Finding('failure', `${record.error}${hint}`, isReplyTopicUnknown ? `replies on ${where}` : undefined));
    }, this.#timeoutMs);
    try {
      await this.#client.publishAsync(topic, text, { qos: 1, ...(properties === undefined ? {} : { properties }) });
      return await promise;
    } catch (error) {
      if (!(error instanceof Error) || error instanceof Finding) throw error;
      record.error ??= error.message;
      fail(record.error);
    } finally {
      clearTimeout(timer);
      this.#pending = undefined;
    }
  }

  /** Subscribes again, so that the broker sends the retained message of the reply topic before any later message. */
  async subscribeAgain(): Promise<void> {
    const again = { [this.#topics.reply]: { qos: 1 }, resubscribe: true };
    await this.#client.subscribeAsync(again as unknown as ISubscriptionMap);
  }

  /** Throws a failure if a retained message arrived on the reply topic. */
  expectNothingRetained(): void {
    if (this.#retained === undefined) return;
    this.exchanges.add(this.#retained);
    const { reply } = this.#topics;
    fail(
      `a reply is retained on ${reply}: the broker keeps it for each later subscriber, with the API key if it is the ` +
        `reply to an activation. Publish replies without retain, and delete this one (mosquitto_pub -r -n -t ${reply})`,
      'only replies that are not retained',
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.endAsync(true);
  }

  #receive(payload: Buffer, { properties, retain, topic }: IPublishPacket): void {
    if (retain) {
      this.#retained = {
        request: `SUBSCRIBE ${topic}`,
        requestHeaders: {},
        responseHeaders: { topic, retain: 'true' },
      };
      this.#retained.responseBody = payload.subarray(0, EXCERPT_CHARACTERS).toString('utf8');
      return;
    }
    const pending = this.#pending;
    const reply = readReply(payload);
    if (pending === undefined || reply.kind === 'request') return;
    const { id, record, resolve, reject } = pending;
    const correlation = properties?.correlationData?.toString('utf8');
    record.responseHeaders = {
      topic,
      ...(correlation === undefined ? {} : { 'correlation-data': correlation }),
    };
    record.responseBody = payload.subarray(0, EXCERPT_CHARACTERS).toString('utf8');
    const ignored = reasonToIgnore({ id: reply.id, correlation }, id);
    if (ignored !== undefined) {
      record.error = ignored;
      return;
    }
    delete record.error;
    this.#answered.add(pending.topic);
    if (reply.kind === 'broken') return reject(new Error(`the reply is broken: ${reply.why}`));
    const { result, failure } = { result: undefined, failure: undefined, ...reply };
    resolve({ result, failure, hasCorrelation: correlation !== undefined, bytes: payload.byteLength });
  }
}

interface Marks {
  readonly id: string | undefined;
  readonly correlation: string | undefined;
}

/** Returns the reason why the agent ignores a message (src/service/messaging/rpc-client.ts), if it does. */
function reasonToIgnore({ id, correlation }: Marks, expected: string): string | undefined {
  if (id === undefined) return correlation === expected ? undefined : 'it does not show which request it answers';
  if (correlation !== undefined && correlation !== id) return 'its correlation data differs from its id';
  return id === expected ? undefined : 'its id is not the id of the request';
}
