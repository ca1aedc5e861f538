import { createHash } from 'node:crypto';

import { AgentError, valueOrError } from '../system/errors.ts';
import type { FirmwareHeader, FirmwareSource, PayloadHeader, PayloadWriter, WrittenPayload } from '../update/ports.ts';
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
  /** The errors of the payload checks. */
  readonly rejections: readonly AgentError[];
}

/** Checks the content of one payload, which is kept in memory for it. */
export interface PayloadCheck {
  readonly maxBytes: number;
  /** Throws an AgentError for content that its target rejects. `file` is empty if it is larger than `maxBytes`. */
  readonly check: (file: Uint8Array, sizeBytes: number) => Promise<void>;
}

type PayloadChecks = ReadonlyMap<PayloadHeader, PayloadCheck>;

/**
 * Reads a firmware image completely, for any signer and any device. Nothing is written, and no trust list is accepted.
 */
export async function describeFirmware(
  source: FirmwareSource,
  keys: readonly TrustedKey[],
  signal: AbortSignal,
  checksFor: (header: FirmwareHeader) => Promise<PayloadChecks> = async () => new Map(),
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
  const rejections: AgentError[] = [];
  try {
    await using firmware = await open({ source, installedProvides: {}, onProgress: () => {} }, signal);
    ({ header } = firmware);
    const checks = await checksFor(header);
    for await (const file of firmware.payloads) {
      const check = checks.get(file.payload);
      const onEnd = async (sizeBytes: number, content: Uint8Array): Promise<void> => {
        sizes.set(file.payload.fileName, sizeBytes);
        const rejection = await valueOrError(check?.check(content, sizeBytes) ?? Promise.resolve());
        if (rejection instanceof AgentError) rejections.push(rejection);
      };
      const writer = new CountingWriter(onEnd, check?.maxBytes ?? 0);
      const { written } = await file.write({ writer }, signal);
      imageDigest = written.digest;
    }
    return { header, digest: header.digest ?? imageDigest, sizes, list, damage: undefined, rejections };
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    return { header, digest: header?.digest, sizes, list, damage: error, rejections };
  }
}

/** Keeps only the digest of what is written, and its content up to a size. */
class CountingWriter implements PayloadWriter {
  readonly #hash = createHash('sha256');
  readonly #onEnd: (sizeBytes: number, content: Uint8Array) => Promise<void>;
  readonly #maxKept: number;
  #chunks: Uint8Array[] = [];
  #sizeBytes = 0;

  constructor(onEnd: (sizeBytes: number, content: Uint8Array) => Promise<void>, maxKept: number) {
    this.#onEnd = onEnd;
    this.#maxKept = maxKept;
  }

  write(chunk: Uint8Array): undefined {
    this.#hash.update(chunk);
    this.#sizeBytes += chunk.byteLength;
    if (this.#sizeBytes <= this.#maxKept) this.#chunks.push(Uint8Array.from(chunk));
    else this.#chunks = [];
  }

  async checkpoint(): Promise<never> {
    throw new TypeError('what is only described has no checkpoints');
  }

  async finish(): Promise<WrittenPayload> {
    await this.#onEnd(this.#sizeBytes, Buffer.concat(this.#chunks));
    const digest = `sha256:${this.#hash.digest('hex')}`;
    return { sizeBytes: this.#sizeBytes, digest, unchangedBytes: 0 };
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}
