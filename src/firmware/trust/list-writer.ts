import { hash } from 'node:crypto';

import type { PayloadWriter, WrittenPayload, WrittenPrefix } from '../../update/ports.ts';
import { VerificationError } from '../errors.ts';
import { MAX_LIST_BYTES } from './trust-list.ts';

/** Collects a list in memory, up to its bound. */
export class ListWriter implements PayloadWriter {
  readonly #chunks: Uint8Array[] = [];
  #sizeBytes = 0;

  get content(): Uint8Array {
    return Buffer.concat(this.#chunks);
  }

  write(chunk: Uint8Array): undefined {
    this.#sizeBytes += chunk.byteLength;
    if (this.#sizeBytes > MAX_LIST_BYTES) {
      throw new VerificationError('trust-list-malformed', `trust list: more than ${MAX_LIST_BYTES} bytes`);
    }
    this.#chunks.push(Buffer.from(chunk));
  }

  async checkpoint(): Promise<WrittenPrefix> {
    return this.finish();
  }

  async finish(): Promise<WrittenPayload> {
    const digest = `sha256:${hash('sha256', this.content)}`;
    return { sizeBytes: this.#sizeBytes, digest, unchangedBytes: 0 };
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}
