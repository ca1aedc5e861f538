import type { FirmwareTransfer, WirePosition } from '../update/ports.ts';
import { ServiceError } from './errors.ts';

export function isKeyRejected(error: unknown): boolean {
  return error instanceof ServiceError && error.code === 'key-rejected';
}

type Reopen = (position: WirePosition | undefined) => Promise<FirmwareTransfer>;

/** A transfer that continues with a new key if its first one is rejected while it runs. */
export class RekeyedTransfer implements FirmwareTransfer {
  readonly startOffset: number;
  readonly totalBytes: number | undefined;
  readonly validator: string | undefined;
  readonly #reopen: Reopen;
  #transfer: FirmwareTransfer;

  constructor(transfer: FirmwareTransfer, reopen: Reopen) {
    this.startOffset = transfer.startOffset;
    this.totalBytes = transfer.totalBytes;
    this.validator = transfer.validator;
    this.#reopen = reopen;
    this.#transfer = transfer;
  }

  get chunks(): AsyncIterable<Uint8Array> {
    return this.#read();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#transfer[Symbol.asyncDispose]();
  }

  async *#read(): AsyncGenerator<Uint8Array, void, undefined> {
    let offset = this.startOffset;
    for (;;) {
      try {
        for await (const chunk of this.#transfer.chunks) {
          offset += chunk.byteLength;
          yield chunk;
        }
        return;
      } catch (error) {
        if (!isKeyRejected(error)) throw error;
        await this.#goOn(offset, error);
      }
    }
  }

  async #goOn(offset: number, rejection: unknown): Promise<void> {
    const { totalBytes, validator } = this;
    if (totalBytes === undefined || validator === undefined) throw rejection;
    await this.#transfer[Symbol.asyncDispose]();
    this.#transfer = await this.#reopen({ offset, totalBytes, validator });
    if (this.#transfer.startOffset === offset) return;
    const why = 'the encoded firmware changed while it was read: the service restarts it';
    throw new ServiceError({ code: 'firmware-changed', why });
  }
}
