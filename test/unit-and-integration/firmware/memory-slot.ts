import { createHash } from 'node:crypto';

import { AgentError } from '../../../src/system/errors.ts';
import type { PayloadOpening, PayloadWriter, WrittenPayload, WrittenPrefix } from '../../../src/update/ports.ts';

/** A target for payloads that loses or tears nondurable data. */
export class MemorySlot {
  readonly openings: PayloadOpening[] = [];
  unclosed = 0;
  finished: Buffer | undefined;
  #parts: Uint8Array[] = [];
  #durableBytes = 0;

  get content(): Buffer {
    const whole = Buffer.concat(this.#parts);
    this.#parts = [whole];
    return whole;
  }

  set content(content: Uint8Array) {
    this.#parts = [content];
  }

  readonly openPayload = async (opening: PayloadOpening): Promise<PayloadWriter> => {
    this.openings.push(opening);
    const prefix = opening.resumeAt;
    this.finished = undefined;
    const kept = this.content.subarray(0, prefix?.sizeBytes ?? 0);
    if (prefix !== undefined && (kept.length !== prefix.sizeBytes || digestOf(kept) !== prefix.digest)) {
      throw new AgentError({
        code: 'checkpoint-stale',
        message: 'the slot holds something else',
        remedy: 'retry',
        exit: 'tryAgain',
      });
    }
    this.content = Buffer.from(kept);
    this.#durableBytes = kept.length;
    this.unclosed += 1;
    return new MemoryWriter(this);
  };

  append(chunk: Uint8Array): void {
    this.#parts.push(Uint8Array.from(chunk));
  }

  makeDurable(): WrittenPrefix {
    this.#durableBytes = this.content.length;
    return { sizeBytes: this.#durableBytes, digest: digestOf(this.content) };
  }

  /** Keeps nondurable data in part, and wrong. */
  cutPower(): void {
    const { content } = this;
    const lost = (content.length - this.#durableBytes) >>> 1;
    const torn = content.subarray(0, content.length - lost);
    torn.fill(0xa5, this.#durableBytes);
    this.content = torn;
  }
}

class MemoryWriter implements PayloadWriter {
  readonly #slot: MemorySlot;
  #writes = 0;
  #isBusy = false;

  constructor(slot: MemorySlot) {
    this.#slot = slot;
  }

  /** Asks for patience at every third chunk, and looks at the chunk only before it returns. */
  write(chunk: Uint8Array): Promise<void> | undefined {
    if (this.#isBusy) throw new Error('written to while it asked for patience');
    this.#slot.append(chunk);
    this.#writes += 1;
    if (this.#writes % 3 !== 0) return undefined;
    this.#isBusy = true;
    return new Promise((resolve) => {
      setImmediate(() => {
        this.#isBusy = false;
        resolve();
      });
    });
  }

  async checkpoint(): Promise<WrittenPrefix> {
    return this.#slot.makeDurable();
  }

  async finish(): Promise<WrittenPayload> {
    this.#slot.finished = this.#slot.content;
    return { ...this.#slot.makeDurable(), unchangedBytes: 0 };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#slot.unclosed -= 1;
  }
}

export function digestOf(content: Uint8Array): string {
  return `sha256:${createHash('sha256').update(content).digest('hex')}`;
}
