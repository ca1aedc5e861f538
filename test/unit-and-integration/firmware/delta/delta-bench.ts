import { encodeDelta } from '../../../../src/firmware/delta/encode.ts';
import type { BaseReader } from '../../../../src/update/ports.ts';

export async function deltaOf(base: Buffer, result: Buffer, windowBytes?: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of encodeDelta(base, result, windowBytes === undefined ? {} : { windowBytes }))
    parts.push(part);
  return Buffer.concat(parts);
}

/** Counts what is read; one buffer for all, so that what is kept of it too long is seen. */
export class MemoryBase implements BaseReader {
  readonly #bytes: Uint8Array;
  readonly #buffer: Buffer;
  readBytes = 0;
  open = true;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#buffer = Buffer.alloc(Math.min(bytes.byteLength, 4 * 1024 * 1024));
  }

  async read(position: number, sizeBytes: number): Promise<Uint8Array> {
    this.readBytes += sizeBytes;
    this.#buffer.fill(0xee);
    this.#buffer.set(this.#bytes.subarray(position, position + sizeBytes));
    return this.#buffer.subarray(0, sizeBytes);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.open = false;
  }
}
