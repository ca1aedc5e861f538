import type { IncomingMessage } from 'node:http';

import { abortable } from '../../system/abortable.ts';
import { systemErrorCode } from '../../system/errors.ts';
import type { FileContent } from '../../system/files/opened-file.ts';
import { GatheredBytes } from '../../system/gathered-bytes.ts';
import { Deadline } from '../../system/time/deadline.ts';
import { ControlError } from '../control-errors.ts';
import type { ControlLimits } from './control-limits.ts';

/** Beyond `slowFileMs`, a client may make the daemon wait one second for each 10 KiB that it has sent. */
const MIN_BYTES_PER_MS = (10 * 1024) / 1_000;

/** More than the header of any artifact, which is read before the installation. */
const MAX_KEPT_BYTES = 4 * 1024 * 1024;

/**
 * A file in the body of a request, so that the daemon opens no file on behalf of a client. Only its start is kept in
 * memory and can be read again.
 */
export class SentFile implements FileContent {
  readonly sizeBytes: number | undefined;
  readonly #chunks: AsyncIterator<Buffer, unknown>;
  readonly #limits: Pick<ControlLimits, 'stalledMs' | 'slowFileMs'>;
  #next: Promise<IteratorResult<Buffer, unknown>> | undefined;
  /** The received bytes, or undefined if they are too many to keep. */
  #kept: GatheredBytes | undefined = new GatheredBytes();
  #receivedBytes = 0;
  /** The time that the daemon has waited for the client. */
  #waitedMs = 0;

  constructor(request: IncomingMessage, limits: Pick<ControlLimits, 'stalledMs' | 'slowFileMs'>) {
    const length = request.headers['content-length'];
    this.sizeBytes = length === undefined ? undefined : Number(length);
    this.#chunks = request.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer, unknown>;
    this.#limits = limits;
  }

  async *read(signal: AbortSignal): AsyncGenerator<Uint8Array, void, undefined> {
    if (this.#kept === undefined) throw notSent('its start is no longer available');
    if (this.#kept.sizeBytes > 0) yield this.#kept.bytes;
    for (;;) {
      const chunk = await this.#receive(signal);
      if (chunk === undefined) return;
      this.#keep(chunk);
      yield chunk;
    }
  }

  /** Reads and discards the rest, since a client may not read the reply before it has sent everything. */
  async discard(signal: AbortSignal): Promise<void> {
    this.#kept = undefined;
    while ((await this.#receive(signal)) !== undefined);
  }

  async #receive(signal: AbortSignal): Promise<Buffer | undefined> {
    const { stalledMs, slowFileMs } = this.#limits;
    const leftMs = slowFileMs + this.#receivedBytes / MIN_BYTES_PER_MS - this.#waitedMs;
    using deadline = new Deadline(Math.min(stalledMs, leftMs), () => notSent('the client is too slow'), signal);
    const beganMs = performance.now();
    try {
      this.#next ??= this.#chunks.next();
      const { value, done } = await abortable(this.#next, deadline.signal);
      this.#next = undefined;
      if (done === true) return undefined;
      this.#receivedBytes += value.byteLength;
      return value;
    } catch (error) {
      if (systemErrorCode(error) === undefined || error instanceof ControlError) throw error;
      throw notSent('the client disconnected', error);
    } finally {
      this.#waitedMs += performance.now() - beganMs;
    }
  }

  #keep(chunk: Buffer): void {
    if (this.#receivedBytes > MAX_KEPT_BYTES) this.#kept = undefined;
    this.#kept?.add(chunk);
  }
}

function notSent(why: string, cause?: unknown): ControlError {
  return new ControlError('file-not-sent', `the file was not received completely: ${why}`, { cause });
}
