import type { Message } from '../../mqtt/connection.ts';
import { brokerName } from '../../mqtt/open-broker.ts';
import type { SkippedMessage } from '../../mqtt/packet-guard.ts';
import { abortable } from '../../system/abortable.ts';
import { mapError } from '../../system/errors.ts';
import { Deadline } from '../../system/time/deadline.ts';
import type { TransportDeps } from '../contract.ts';
import { ServiceError } from '../errors.ts';
import { malformed } from '../replies.ts';
import type { BrokerConnection } from './broker/broker-connection.ts';
import { lostError, silentError } from './broker/broker-errors.ts';
import { Broker } from './broker/broker.ts';
import { IgnoredMessages } from './broker/ignored.ts';
import { PendingRequest } from './pending-request.ts';
import type { RpcCall } from './pending-request.ts';
import { readReply, rpcError } from './reply.ts';
import type { Reply } from './reply.ts';
import { ENVELOPE_BYTES, MAX_PENDING_REQUESTS, MAX_REPLY_BYTES } from './settings.ts';
import type { MessagingSettings } from './settings.ts';

export interface RpcDeps extends TransportDeps {
  /** Makes an id that is unique over restarts and cannot be guessed. */
  readonly newId: () => string;
}

export interface MessagingHandlers {
  /** Called when a message arrived on the wake topic. */
  readonly onWake: () => void;
  /** Called when bytes of a large message arrived, which shows that the transfer progresses. */
  readonly onProgress: () => void;
}

/**
 * Sends requests and receives their replies, JSON-RPC 2.0 (interface.md, "Messaging form"). A request outlives its
 * connection: where the broker kept our session, the reply comes after the next connection. Each call is one attempt;
 * the caller decides about others.
 */
export class RpcClient implements AsyncDisposable {
  readonly broker: Broker;
  readonly ignored = new IgnoredMessages();
  readonly #settings: MessagingSettings;
  readonly #deps: RpcDeps;
  readonly #pending = new Map<string, PendingRequest>();
  #attendant: MessagingHandlers | undefined;
  /** The deadlines of the firmware transfers that run. */
  readonly #transfers = new Set<Deadline>();
  #calls = 0;

  constructor(settings: MessagingSettings, deps: RpcDeps) {
    this.#settings = settings;
    this.#deps = deps;
    const events = {
      onUp: (connection: BrokerConnection) => this.#resume(connection),
      onMessage: (message: Message) => this.#receive(message),
      onSkipped: (message: SkippedMessage) => this.#refuse(message),
      admits: (bytes: number) => bytes < this.#maxBytes,
      onProgress: () => this.#progress(),
      onNap: (ms: number) => this.#transfers.forEach((deadline) => deadline.extend(ms)),
    };
    this.broker = new Broker(settings, events, deps);
  }

  /**
   * From the first connection on, the attendant is woken, and the broker shows us as online. Call this before any
   * request.
   */
  start(attendant: MessagingHandlers): void {
    this.#attendant = attendant;
    this.broker.attend();
  }

  /** Returns the reply's `result`, as `Reply` has it. Throws ServiceErrors, or the signal's reason. */
  async call(call: RpcCall, signal: AbortSignal): Promise<unknown> {
    const { operation } = call;
    if (this.#calls >= MAX_PENDING_REQUESTS) {
      const why = `${MAX_PENDING_REQUESTS} requests wait for their replies already`;
      throw new ServiceError({ code: 'too-many-requests', operation, why });
    }
    const late = (): ServiceError =>
      new ServiceError({ code: 'total-timeout', operation, why: 'the reply took longer than its deadline' });
    const { totalMs, transferMs } = this.#settings.deadlines;
    using deadline = new Deadline(call.isLarge ? transferMs : totalMs, late, signal);
    this.#calls += 1;
    if (call.isLarge) this.#transfers.add(deadline);
    try {
      return await this.#ask(call, await this.#connection(call, deadline.signal), deadline.signal);
    } finally {
      this.#calls -= 1;
      this.#transfers.delete(deadline);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const request of this.#pending.values()) request.cancel(this.#lost('was left'));
    await this.broker[Symbol.asyncDispose]();
  }

  async #connection({ operation }: RpcCall, signal: AbortSignal): Promise<BrokerConnection> {
    return mapError(this.broker.connection(signal), (error) =>
      error instanceof ServiceError && !signal.aborted ? error.during(operation) : error,
    );
  }

  async #ask(call: RpcCall, connection: BrokerConnection, signal: AbortSignal): Promise<unknown> {
    const { requestMs } = this.#settings.deadlines;
    const request = new PendingRequest(this.#deps.newId(), call, requestMs, (silent) => this.#expire(silent));
    this.#pending.set(request.id, request);
    void this.#send(request, connection);
    try {
      return await abortable(request.outcome, signal);
    } finally {
      request.stop();
      if (this.#pending.delete(request.id)) this.ignored.finish(request.id, 'given-up');
    }
  }

  async #send(request: PendingRequest, connection: BrokerConnection): Promise<void> {
    const { id, text, call } = request;
    const { topics, deadlines } = this.#settings;
    // sent with MQTT 5 only
    const properties = {
      responseTopic: topics.reply ?? '',
      correlationData: Buffer.from(id),
      messageExpiryInterval: Math.ceil(deadlines.requestMs / 1000),
      contentType: 'application/json',
    };
    request.delivery = 'sent';
    try {
      request.delivery = await connection.publish({ topic: call.topic, payload: text, retain: false, properties });
      if (request.delivery === 'unheard' && this.#pending.has(id)) request.shortenTimeout(deadlines.unheardMs);
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      // the next connection decides about a request whose connection was lost
      if (!connection.isClosed) request.fail(error);
    }
  }

  /** Goes on after a loss: either the broker remembers our messages and kept those for us, or it has forgotten both. */
  #resume(connection: BrokerConnection): void {
    for (const request of this.#pending.values()) {
      if (!connection.isSessionPresent) request.cancel(this.#lost('forgot our session, and replies with it'));
      else if (request.delivery === 'sent' && request.call.isRepeatable) void this.#send(request, connection);
    }
  }

  #expire(request: PendingRequest): void {
    const { topics, deadlines } = this.#settings;
    const { topic } = request.call;
    const { problem } = this.broker;
    if (problem !== undefined) {
      request.cancel(problem);
    } else if (request.delivery === 'sent') {
      const silent = silentError(this.#brokerName, `did not take the request within ${deadlines.requestMs / 1000} s`);
      request.cancel(silent);
      // a packet that announced too many bytes may swallow the broker's replies
      this.broker.abandonConnection(silent);
    } else {
      const heard =
        request.delivery === 'heard'
          ? `within ${deadlines.requestMs / 1000} s`
          : 'and the broker reports no subscriber there';
      const why = `no reply to the request on ${topic} arrived on ${topics.reply ?? 'any topic'} ${heard}`;
      request.cancel(new ServiceError({ code: 'reply-timeout', why }));
    }
  }

  #progress(): void {
    for (const request of this.#pending.values()) request.restartTimeout();
    this.#attendant?.onProgress();
  }

  /** A firmware image may be as large as any message. */
  get #maxBytes(): number {
    const isExpected = [...this.#pending.values()].some(({ call }) => call.isLarge);
    return isExpected ? this.#settings.maxMessageBytes + ENVELOPE_BYTES : MAX_REPLY_BYTES;
  }

  #receive({ topic, content, isRetained, correlation }: Message): void {
    const { topics } = this.#settings;
    if (isRetained) this.ignored.count('retained');
    else if (topic === topics.wake) this.#attendant?.onWake();
    else if (topic !== topics.reply) this.ignored.count('unwanted');
    else this.#answer(readReply(content), content, correlation);
  }

  #answer(reply: Reply, content: Buffer, correlation: string | undefined): void {
    if (reply.kind === 'request') {
      this.ignored.count('request');
      return;
    }
    const isBroken = reply.kind === 'broken';
    const request = this.#requestOf(reply.id ?? (isBroken ? this.#requestIn(content)?.id : undefined), correlation);
    if (request === undefined) return;
    this.#finish(request);
    const { operation, isRepeatable, isLarge, secret } = request.call;
    if (isBroken) request.fail(malformed(operation, `the reply is broken: ${reply.why}`));
    else if (reply.kind === 'failure') request.fail(rpcError(reply.failure, operation, !isRepeatable, secret));
    else if (!isLarge && content.byteLength > MAX_REPLY_BYTES) request.fail(tooLong());
    else request.succeed(reply.result);
  }

  #finish({ id }: PendingRequest): void {
    this.#pending.delete(id);
    this.ignored.finish(id, 'answered');
  }

  /**
   * Returns the request that this reply answers, or undefined if there is none, and the reply is counted as ignored.
   */
  #requestOf(id: string | undefined, correlation: string | undefined): PendingRequest | undefined {
    const name = id ?? correlation;
    const request = name === undefined ? undefined : this.#pending.get(name);
    if (id !== undefined && correlation !== undefined && correlation !== id) {
      this.ignored.count('mismatched');
      return undefined;
    }
    if (request === undefined && id !== undefined) this.ignored.countReply(id);
    else if (request === undefined) this.ignored.count('unreadable');
    return request;
  }

  /** The request whose id the bytes contain, in their content or in their properties. */
  #requestIn(bytes: Buffer): PendingRequest | undefined {
    return [...this.#pending.values()].find(({ id }) => bytes.includes(id));
  }

  /** Fails the request that was answered by a message that is too long, so that it does not wait in vain. */
  #refuse({ bytes, isRetained, sample }: SkippedMessage): void {
    const request = isRetained ? undefined : this.#requestIn(sample);
    if (request === undefined) {
      this.ignored.count(isRetained ? 'retained' : 'unwanted');
      return;
    }
    this.#finish(request);
    request.fail(request.call.isLarge ? this.#tooLarge(bytes) : tooLong());
  }

  #tooLarge(bytes: number): ServiceError {
    const why =
      `it comes as a message of ${inMebibytes(bytes)}, more than the ` +
      `${inMebibytes(this.#settings.maxMessageBytes)} of service.messaging.max_message: fetch it in REST form`;
    return new ServiceError({ code: 'message-too-large', why });
  }

  #lost(why: string): ServiceError {
    return lostError(this.#brokerName, why);
  }

  get #brokerName(): string {
    return brokerName(this.#settings.url);
  }
}

function tooLong(): ServiceError {
  return new ServiceError({ code: 'reply-too-large', why: `the reply is longer than ${MAX_REPLY_BYTES} bytes` });
}

function inMebibytes(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}
