import { createHash } from 'node:crypto';

import { AgentError } from '../system/errors.ts';
import type { FirmwareHeader, FirmwareSource, PayloadWriter, WrittenPayload } from '../update/ports.ts';
import type { TrustedKey } from './artifact/trust.ts';
import { firmwareOpener } from './open-firmware.ts';

/** The description of a firmware image, as far as it could be read. */
export interface FirmwareDescription {
  readonly header: FirmwareHeader | undefined;
  readonly digest: string | undefined;
  /** The size of each payload file that was read completely, by its name. */
  readonly sizes: ReadonlyMap<string, number>;
  /** The trust list that it holds, not verified yet. */
  readonly list: Uint8Array | undefined;
  /** The reason why it cannot be read: it is damaged or not a firmware image. */
  readonly damage: AgentError | undefined;
}

/**
 * Reads a firmware image completely, for any signer and any device. Nothing is written, and no trust list is accepted.
 */
export async function describeFirmware(
  source: FirmwareSource,
  keys: readonly TrustedKey[],
  signal: AbortSignal,
): Promise<FirmwareDescription> {
  let header: FirmwareHeader | undefined;
  let list: Uint8Array | undefined;
  const takeList = async (bytes: Uint8Array): Promise<void> => {
    list = bytes;
  };
  const sizes = new Map<string, number>();
  const open = firmwareOpener({
    encoding: 'auto',
    trust: { keys, allowUnsigned: true, takeList },
    deviceType: undefined,
  });
  let imageDigest: string | undefined;
  try {
    await using firmware = await open({ source, installedProvides: {}, onProgress: () => {} }, signal);
    ({ header } = firmware);
    for await (const file of firmware.payloads) {
      const writer = new CountingWriter((sizeBytes) => sizes.set(file.payload.fileName, sizeBytes));
      const { written } = await file.write({ writer }, signal);
      imageDigest = written.digest;
    }
    return { header, digest: header.digest ?? imageDigest, sizes, list, damage: undefined };
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    return { header, digest: header?.digest, sizes, list, damage: error };
  }
}

/** Keeps only the digest of what is written. */
class CountingWriter implements PayloadWriter {
  readonly #hash = createHash('sha256');
  readonly #onEnd: (sizeBytes: number) => void;
  #sizeBytes = 0;

  constructor(onEnd: (sizeBytes: number) => void) {
    this.#onEnd = onEnd;
  }

  write(chunk: Uint8Array): undefined {
    this.#hash.update(chunk);
    this.#sizeBytes += chunk.byteLength;
  }

  async checkpoint(): Promise<never> {
    throw new TypeError('what is only described has no checkpoints');
  }

  async finish(): Promise<WrittenPayload> {
    this.#onEnd(this.#sizeBytes);
    const digest = `sha256:${this.#hash.digest('hex')}`;
    return { sizeBytes: this.#sizeBytes, digest, unchangedBytes: 0 };
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}
