import { createCipheriv, createSecretKey, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

/**
 * Recognizes bytes that an accident has changed. Its value is a number of 32 or 48 bits, to be compared only with others
 * of this process.
 */
export interface Checksum {
  update(bytes: Uint8Array): void;
  /** The checksum of all bytes so far. Afterwards no more can be added. */
  value(): number;
}

/** Opens a checksum of the fastest kind. */
export function openChecksum(): Checksum {
  fastest ??= fastestKind();
  return checksums[fastest]();
}

export function checksumOf(bytes: Uint8Array): number {
  const checksum = openChecksum();
  checksum.update(bytes);
  return checksum.value();
}

const TAG_BYTES = 6;
const IV_BYTES = 12;

/**
 * GMAC (NIST SP 800-38D) serves as a checksum where the processor has instructions for it (PCLMUL, PMULL); elsewhere,
 * as on a Raspberry Pi 4, CRC-32 of zlib is faster and is chosen. Against CRC-32 it saves 11 % of an installation. To
 * remove it, keep only `crc32` and delete `fastestKind` with its measurement.
 */
export const checksums = {
  crc32: (): Checksum => {
    let running = 0;
    const update = (bytes: Uint8Array): void => {
      running = crc32(bytes, running);
    };
    return { update, value: () => running };
  },
  gmac: (): Checksum => {
    gmacKey ??= { key: createSecretKey(randomBytes(16)), iv: randomBytes(IV_BYTES) };
    const cipher = createCipheriv('aes-128-gcm', gmacKey.key, gmacKey.iv);
    const update = (bytes: Uint8Array): void => {
      cipher.setAAD(bytes);
    };
    const value = (): number => {
      cipher.final();
      return cipher.getAuthTag().readUIntLE(0, TAG_BYTES);
    };
    return { update, value };
  },
} as const;

type Kind = keyof typeof checksums;

let gmacKey: { readonly key: ReturnType<typeof createSecretKey>; readonly iv: Uint8Array } | undefined;
let fastest: Kind | undefined;

const SAMPLE_BYTES = 256 * 1024;
const TRIES = 3;

/** Tries both on this processor, which takes a few milliseconds. A wrong choice under load costs time and nothing else. */
function fastestKind(): Kind {
  const sample = Buffer.alloc(SAMPLE_BYTES, 1);
  const shortestMs = (kind: Kind): number => Math.min(...Array.from({ length: TRIES }, () => elapsedMs(kind, sample)));
  return shortestMs('gmac') < shortestMs('crc32') ? 'gmac' : 'crc32';
}

function elapsedMs(kind: Kind, sample: Buffer): number {
  const startMs = performance.now();
  const checksum = checksums[kind]();
  checksum.update(sample);
  checksum.value();
  return performance.now() - startMs;
}
