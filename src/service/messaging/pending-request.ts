import { ServiceError } from '../errors.ts';
import type { PayloadRange } from './reply.ts';

export interface RpcCall {
  /** What is being done, for messages. */
  readonly operation: string;
  readonly topic: string;
  readonly method: string;
  readonly params: Readonly<Record<string, string>>;
  /** Asked twice it does what it does asked once. */
  readonly isRepeatable: boolean;
  /** The reply may be as large as any message. */
  readonly isLarge: boolean;
  /** What no error may say, though the service says it. */
  readonly secret?: string | undefined;
}

/** How far a request got: with the broker, and by its account heard or not. */
export type Delivery = 'sent' | 'heard' | 'unheard';

/** A request whose reply is waited for. */
export class PendingRequest {
  readonly id: string;
  readonly call: RpcCall;
  delivery: Delivery = 'sent';
  readonly #outcome = Promise.withResolvers<PayloadRange | undefined>();
  readonly #onSilence: () => void;
  #patienceMs: number;
  #timer: NodeJS.Timeout;

  constructor(id: string, call: RpcCall, patienceMs: number, onSilence: (request: PendingRequest) => void) {
    this.id = id;
    this.call = call;
    this.#outcome.promise.catch(() => {}); // nobody may be waiting any more
    this.#onSilence = () => onSilence(this);
    this.#patienceMs = patienceMs;
    this.#timer = setTimeout(this.#onSilence, patienceMs);
  }

  get outcome(): Promise<PayloadRange | undefined> {
    return this.#outcome.promise;
  }

  /** The message that is published. */
  get text(): string {
    const { method, params } = this.call;
    return JSON.stringify({ jsonrpc: '2.0', id: this.id, method, params });
  }

  /** Not longer than this, from now on. */
  limitPatience(patienceMs: number): void {
    this.stop();
    this.#patienceMs = Math.min(this.#patienceMs, patienceMs);
    this.#timer = setTimeout(this.#onSilence, this.#patienceMs);
  }

  /** Something came that may be the beginning of the reply: the patience begins anew. */
  hearten(): void {
    this.#timer.refresh();
  }

  succeed(result: PayloadRange | undefined): void {
    this.stop();
    this.#outcome.resolve(result);
  }

  fail(reason: ServiceError): void {
    this.stop();
    this.#outcome.reject(reason.during(this.call.operation));
  }

  /** Nobody can tell whether the service did it. */
  giveUp(reason: ServiceError): void {
    if (this.call.isRepeatable || this.delivery === 'unheard') this.fail(reason);
    else this.fail(new ServiceError({ code: 'activation-unanswered', why: reason.message, cause: reason }));
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
