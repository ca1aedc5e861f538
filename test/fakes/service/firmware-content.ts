import { createCipheriv } from 'node:crypto';
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

/** The bytes of an image before they are encoded, readable at any offset, so that they may have any size. */
export interface FirmwareContent {
  readonly sizeBytes: number;
  read(offset: number, length: number): Buffer;
  close?(): void;
}

export function bufferContent(bytes: Uint8Array): FirmwareContent {
  const buffer = Buffer.from(bytes);
  return { sizeBytes: buffer.byteLength, read: (offset, length) => buffer.subarray(offset, offset + length) };
}

/** Versions of a service, each with its firmware. */
export function versionsOf(
  firmware: Readonly<Record<string, Uint8Array>>,
): readonly { readonly id: string; readonly firmware: FirmwareContent }[] {
  return Object.entries(firmware).map(([id, bytes]) => ({ id, firmware: bufferContent(bytes) }));
}

export function fileContent(path: string): FirmwareContent {
  const descriptor = openSync(path, 'r');
  return {
    sizeBytes: fstatSync(descriptor).size,
    read: (offset, length) => {
      const buffer = Buffer.alloc(length);
      let filled = 0;
      while (filled < length) {
        const got = readSync(descriptor, buffer, filled, length - filled, offset + filled);
        if (got === 0) throw new Error(`${path} became shorter while it was served`);
        filled += got;
      }
      return buffer;
    },
    close: () => closeSync(descriptor),
  };
}

/**
 * Random bytes, the same for a seed, made when they are read: an AES-CTR key stream. Gibibytes cost nothing until they
 * are read.
 */
export function randomContent(sizeBytes: number, seed = 0): FirmwareContent {
  const key = Buffer.alloc(16);
  key.writeUInt32BE(seed);
  return {
    sizeBytes,
    read: (offset, length) => {
      const counter = Buffer.alloc(16);
      counter.writeBigUInt64BE(BigInt(Math.floor(offset / 16)), 8);
      const skipped = offset % 16;
      const stream = createCipheriv('aes-128-ctr', key, counter).update(Buffer.alloc(skipped + length));
      return stream.subarray(skipped, skipped + Math.min(length, sizeBytes - offset));
    },
  };
}

/** Returns the same content with one byte changed. */
export function changedContent(content: FirmwareContent, at: number): FirmwareContent {
  return {
    sizeBytes: content.sizeBytes,
    read: (offset, length) => {
      const bytes = Buffer.from(content.read(offset, length));
      const index = at - offset;
      if (index >= 0 && index < bytes.byteLength) bytes[index] = (bytes[index] ?? 0) ^ 0xff;
      return bytes;
    },
  };
}
