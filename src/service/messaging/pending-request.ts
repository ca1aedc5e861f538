import { ServiceError } from '../errors.ts';

export interface RpcCall {
  /** The name of the operation in messages. */
  readonly operation: string;
  readonly topic: string;
  readonly method: string;
  readonly params: Readonly<Record<string, string>>;
  /** True if repeating the request has no further effect. */
  readonly isRepeatable: boolean;
  /** The reply may be as large as any message. */
  readonly isLarge: boolean;
  /** A secret that no error may contain, even if the service repeats it. */
  readonly secret?: string | undefined;
}

/** The progress of a request: to the broker, and whether the broker reports a subscriber. */
export type Delivery = 'sent' | 'heard' | 'unheard';

/** A request that waits for its reply. */
export class PendingRequest {
  readonly id: string;
  readonly call: RpcCall;
  delivery: Delivery = 'sent';
  readonly #outcome = Promise.withResolvers<unknown>();
  readonly #onSilence: () => void;
  #patienceMs: number;
  #timer: NodeJS.Timeout;

  constructor(id: string, call: RpcCall, patienceMs: number, onSilence: (request: PendingRequest) => void) {
    this.id = id;
    this.call = call;
    this.#outcome.promise.catch(() => {}); // there may be no caller left
    this.#onSilence = () => onSilence(this);
    this.#patienceMs = patienceMs;
    this.#timer = setTimeout(this.#onSilence, patienceMs);
  }

  /** Resolves with the result of the reply; undefined if the reply has none. */
  get outcome(): Promise<unknown> {
    return this.#outcome.promise;
  }

  /** The message that is published. */
  get text(): string {
    const { method, params } = this.call;
    return JSON.stringify({ jsonrpc: '2.0', id: this.id, method, params });
  }

  /** Shortens the wait for the reply to at most this, from now on. */
  shortenTimeout(patienceMs: number): void {
    this.stop();
    this.#patienceMs = Math.min(this.#patienceMs, patienceMs);
    this.#timer = setTimeout(this.#onSilence, this.#patienceMs);
  }

  /** Something arrived that may be the beginning of the reply: the wait restarts. */
  restartTimeout(): void {
    this.#timer.refresh();
  }

  succeed(result: unknown): void {
    this.stop();
    this.#outcome.resolve(result);
  }

  fail(reason: ServiceError): void {
    this.stop();
    this.#outcome.reject(reason.during(this.call.operation));
  }

  /** Ends a request of which it is unclear whether the service performed it. */
  cancel(reason: ServiceError): void {
    if (this.call.isRepeatable || this.delivery === 'unheard') this.fail(reason);
    else this.fail(new ServiceError({ code: 'activation-timeout', why: reason.message, cause: reason }));
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
