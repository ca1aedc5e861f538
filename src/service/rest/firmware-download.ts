import type { Clock } from '../../system/time/clock.ts';
import { Deadline } from '../../system/time/deadline.ts';
import { backoffMs } from '../../system/time/retry.ts';
import type { RetryPolicy } from '../../system/time/retry.ts';
import type { FirmwareTransfer, WirePosition } from '../../update/ports.ts';
import type { TransportDeps } from '../contract.ts';
import { neverSoon, ServiceError } from '../errors.ts';
import type { ServiceErrorCode } from '../errors.ts';
import type { Throttle } from '../throttle.ts';
import { identityOf, classifyRangeResponse, strongValidator } from './range-response.ts';
import type { TextHead, TextIdentity, TextRange } from './range-response.ts';
import { BlockChecksums } from './replay-check.ts';

export interface TextReply extends TextHead, AsyncDisposable {
  chunks(): AsyncIterable<Uint8Array>;
}

/** Requests the text, whole or from a byte on. Throws for every status except 2xx and, for a range, 416. */
export type RequestText = (range: TextRange | undefined, signal: AbortSignal) => Promise<TextReply>;

export interface DownloadDeps extends Pick<TransportDeps, 'random' | 'log'> {
  /** For messages: "firmware of version 7". */
  readonly operation: string;
  readonly request: RequestText;
  readonly resume: RetryPolicy;
  readonly deadlineMs: number;
  readonly clock: Pick<Clock, 'sleep'>;
  /** If omitted, full speed. */
  readonly throttle?: Pick<Throttle, 'pass'> | undefined;
}

/**
 * Guarantee `same-text`: the encoded firmware, in order and without gaps, however often the connection is interrupted. It
 * continues by `Range` if the service stated a strong validator and a length. Otherwise the text is read again, and the
 * part that was read before is compared and skipped. Only a checksum of each MiB is kept, not the text itself.
 */
export class FirmwareDownload implements FirmwareTransfer {
  readonly #deps: DownloadDeps;
  readonly #deadline: Deadline;
  readonly #seen = new BlockChecksums();
  #identity: TextIdentity = { totalBytes: undefined, etag: undefined };
  #startOffset = 0;
  #reply: TextReply | undefined;
  /** True until the service shows that it cannot serve ranges. */
  #rangesWork = true;

  private constructor(deps: DownloadDeps, signal: AbortSignal) {
    const late = (): ServiceError => this.#error('total-timeout', 'the whole transfer took longer than its deadline');
    this.#deps = deps;
    this.#deadline = new Deadline(deps.deadlineMs, late, signal);
  }

  /** Sends the first request. If the service no longer knows the position, the download starts at 0. */
  static async open(
    deps: DownloadDeps,
    from: WirePosition | undefined,
    signal: AbortSignal,
  ): Promise<FirmwareDownload> {
    const download = new FirmwareDownload(deps, signal);
    try {
      await download.#begin(from !== undefined && isUsable(from) ? from : undefined);
      return download;
    } catch (error) {
      await download[Symbol.asyncDispose]();
      throw error;
    }
  }

  get startOffset(): number {
    return this.#startOffset;
  }

  get totalBytes(): number | undefined {
    return this.#identity.totalBytes;
  }

  get validator(): string | undefined {
    return strongValidator(this.#identity.etag);
  }

  /** The bytes of the text, to be read once. */
  get chunks(): AsyncIterable<Uint8Array> {
    return this.#read();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#deadline[Symbol.dispose]();
    await this.#closeReply();
  }

  async #begin(from: WirePosition | undefined): Promise<void> {
    const reply = await this.#deps.request(from, this.#deadline.signal);
    this.#reply = reply;
    this.#identity = identityOf(reply);
    if (from === undefined) return;
    const { offset, totalBytes, validator: etag } = from;
    const { kind } = classifyRangeResponse(reply, { totalBytes, etag }, offset);
    if (kind === 'onward') {
      this.#identity = { totalBytes, etag };
      this.#startOffset = offset;
    } else if (kind === 'unusable') {
      await this.#closeReply();
      await this.#begin(undefined);
    }
  }

  async *#read(): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      yield* this.#readOn();
    } finally {
      await this[Symbol.asyncDispose]();
    }
  }

  async *#readOn(): AsyncGenerator<Uint8Array, void, undefined> {
    for (let failures = 0; ;) {
      const before = this.#position;
      try {
        yield* this.#take(await this.#openReply());
        if (this.#isComplete) return;
        throw this.#error('reply-truncated', 'the text ended too early');
      } catch (error) {
        failures = this.#position > before ? 1 : failures + 1;
        await this.#closeReply();
        await this.#pauseAfter(error, failures);
      }
    }
  }

  /** Yields the new part of a reply, after comparing the rest with the earlier data. */
  async *#take(reply: TextReply): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const chunk of reply.chunks()) {
      await this.#rest(chunk.byteLength);
      const fresh = this.#seen.push(chunk);
      if (fresh === undefined) throw this.#changed('the part that was already read differs');
      if (this.#position > (this.totalBytes ?? Infinity))
        throw this.#error('reply-malformed', 'the text is longer than the service announced');
      if (fresh.byteLength > 0) yield fresh;
    }
    if (this.#seen.isReplay) throw this.#changed('it is shorter than the part that was already read');
  }

  /**
   * Guarantee `max-rate`: waits while the rate is exceeded, and extends the deadline by as much, since the deadline is
   * meant for a slow service.
   */
  async #rest(bytes: number): Promise<void> {
    const { throttle } = this.#deps;
    await throttle?.pass(bytes, this.#deadline.signal, (ms) => this.#deadline.extend(ms));
  }

  /** Waits before the next attempt. Throws errors that reading again cannot fix, or has not fixed often enough. */
  async #pauseAfter(error: unknown, failures: number): Promise<void> {
    const { resume, clock, random, log, operation } = this.#deps;
    this.#deadline.signal.throwIfAborted();
    if (!(error instanceof ServiceError)) throw error;
    if (error.remedy !== 'retry' || lasting.has(error.code) || failures >= resume.attempts)
      throw error.during(`${operation}, byte ${this.#position}`);
    const delayMs = Math.round(backoffMs(resume, failures, random, error.retryAfterMs));
    const fields = { operation, code: error.code, offset: this.#position, attempt: failures, delayMs };
    log.warn(fields, 'the transfer was interrupted; it resumes after a pause');
    await clock.sleep(delayMs, this.#deadline.signal);
  }

  /** The open reply, or a new one that continues at the present position, or repeats the text. */
  async #openReply(): Promise<TextReply> {
    if (this.#reply !== undefined) return this.#reply;
    const { request, log, operation } = this.#deps;
    const range = this.#rangesWork ? this.#range() : undefined;
    const reply = await request(range, this.#deadline.signal);
    this.#reply = reply;
    const continuation = classifyRangeResponse(reply, this.#identity, this.#position);
    switch (continuation.kind) {
      case 'onward':
        this.#seen.beginAt('end');
        return reply;
      case 'again':
        if (this.#startOffset > 0)
          throw this.#changed('the service restarts it, and the data of an earlier transfer cannot be compared');
        this.#seen.beginAt('start');
        return reply;
      case 'changed':
        throw this.#changed(continuation.why);
      case 'unusable':
        if (range === undefined) throw this.#error('reply-malformed', continuation.why);
        log.warn({ operation, why: continuation.why }, 'the service answers ranges wrongly; the text is read again');
        this.#rangesWork = false;
        await this.#closeReply();
        return this.#openReply();
    }
  }

  #range(): TextRange | undefined {
    const { validator, totalBytes } = this;
    return validator === undefined || totalBytes === undefined ? undefined : { offset: this.#position, validator };
  }

  get #position(): number {
    return this.#startOffset + this.#seen.sizeBytes;
  }

  get #isComplete(): boolean {
    return this.totalBytes === undefined || this.#position === this.totalBytes;
  }

  #changed(why: string): ServiceError {
    return this.#error('firmware-changed', `the firmware changed while it was read: ${why}`);
  }

  #error(code: ServiceErrorCode, why: string): ServiceError {
    return new ServiceError({ code, operation: this.#deps.operation, why });
  }

  async #closeReply(): Promise<void> {
    const reply = this.#reply;
    this.#reply = undefined;
    await reply?.[Symbol.asyncDispose]();
  }
}

/** Codes that reading again cannot fix. */
const lasting: ReadonlySet<string> = new Set([...neverSoon, 'firmware-changed', 'reply-malformed']);

function isUsable({ offset, validator, totalBytes }: WirePosition): boolean {
  return offset < totalBytes && strongValidator(validator) !== undefined;
}
