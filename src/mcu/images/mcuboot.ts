import { constants, createHash, verify } from 'node:crypto';
import type { KeyObject } from 'node:crypto';

import { McuError } from '../errors.ts';
import { makeImage } from './image.ts';
import type { Image } from './image.ts';

export const mcubootMagic = 0x96f3b83d;
const headerBytes = 32;
const trailerMagic = 0x6907;
const protectedMagic = 0x6908;
const maxTlvs = 64;
const counterBytes = 4;

/**
 * Flags of the header (bootutil/image.h): IMAGE_F_ENCRYPTED_AES128 and …_AES256, IMAGE_F_NON_BOOTABLE, and
 * IMAGE_F_COMPRESSED_LZMA1 and …_LZMA2. Which of the others a board starts depends on its MCUboot.
 */
const encryptedFlags = 0x4 | 0x8;
const nonBootable = 0x10;
const compressedFlags = 0x200 | 0x400;

/** Types of TLVs (MCUboot design, "Image format"; bootutil/image.h). */
const tlv = {
  sha256: 0x10,
  sha384: 0x11,
  sha512: 0x12,
  rsa2048: 0x20,
  ecdsa: 0x22,
  rsa3072: 0x23,
  ed25519: 0x24,
  pureSignature: 0x25,
  securityCounter: 0x50,
} as const;

const hashNames: ReadonlyMap<number, string> = new Map([
  [tlv.sha256, 'sha256'],
  [tlv.sha384, 'sha384'],
  [tlv.sha512, 'sha512'],
]);

/** The header of an image for MCUboot. */
export interface McubootHeader {
  readonly version: string;
  /** The hash in hex, as MCUboot's image list reports it. */
  readonly hash: string;
  /** From the protected TLVs, which the signature covers. MCUboot itself compares it if it is built to. */
  readonly securityCounter: number | undefined;
}

interface Tlv {
  readonly type: number;
  readonly value: Uint8Array;
}

interface Signed {
  readonly region: Uint8Array;
  readonly digest: Uint8Array;
  readonly tlvs: readonly Tlv[];
  /** The size of the image with its TLVs. */
  readonly sizeBytes: number;
}

/**
 * Reads an image signed for MCUboot (MCUboot design, "Image format"). Its digest is always checked, its signature if a
 * key is given. The whole file goes to the chip, at `address` if the protocol has addresses. An upload to an SMP server ends
 * with the TLVs: what MCUboot finds in a slot behind them (bootutil_public.c) would decide whether the image is on trial.
 */
export function readMcuboot(file: Uint8Array, address: number, key?: KeyObject, isUpload = false): Image {
  const signed = checkDigest(file);
  if (key !== undefined) checkSignature(signed, key);
  if (isUpload && file.subarray(signed.sizeBytes).some((byte) => byte !== 0xff))
    throw unsupported('uploaded: a trailer or another image is behind it', 'without --pad and --confirm');
  return makeImage('mcuboot', [{ address, bytes: isUpload ? file.subarray(0, signed.sizeBytes) : file }]);
}

export function mcubootHeader(file: Uint8Array): McubootHeader {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const { digest } = checkDigest(file);
  const version = `${view.getUint8(20)}.${view.getUint8(21)}.${view.getUint16(22, true)}`;
  const build = view.getUint32(24, true);
  const hash = Buffer.from(digest).toString('hex');
  return { version: build === 0 ? version : `${version}+${build}`, hash, securityCounter: counterOf(view) };
}

/** Returns the security counter of the image, or undefined if it has none. */
function counterOf(view: DataView): number | undefined {
  if (view.getUint16(10, true) === 0) return undefined;
  const start = view.getUint16(8, true) + view.getUint32(12, true);
  const stated = readTlvs(view, start, protectedMagic).find(({ type }) => type === tlv.securityCounter);
  if (stated === undefined) return undefined;
  if (stated.value.byteLength !== counterBytes) {
    throw new McuError('image-malformed', 'the MCUboot image has a security counter of another length');
  }
  return Buffer.from(stated.value).readUInt32LE();
}

function checkDigest(file: Uint8Array): Signed {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  if (file.byteLength < headerBytes) throw new McuError('image-truncated', 'the MCUboot image ends in its header');
  checkFlags(view.getUint32(16, true));
  const bodyEnd = view.getUint16(8, true) + view.getUint32(12, true);
  const regionEnd = bodyEnd + view.getUint16(10, true);
  if (regionEnd + 4 > file.byteLength) throw new McuError('image-truncated', 'the MCUboot image ends before its TLVs');
  const isProtected = view.getUint16(bodyEnd, true) === protectedMagic;
  if (regionEnd > bodyEnd && !(isProtected && view.getUint16(bodyEnd + 2, true) === regionEnd - bodyEnd)) {
    throw new McuError('image-malformed', 'the MCUboot image has no protected TLVs at the place that its header names');
  }
  const tlvs = readTlvs(view, regionEnd, trailerMagic);
  const stated = tlvs.find((entry) => hashNames.has(entry.type));
  if (stated === undefined && tlvs.some(({ type }) => type === tlv.pureSignature)) {
    throw unsupported(`${checked} it has a pure signature and no digest`, 'without --pure, or with a newer imgtool');
  }
  if (stated === undefined) throw new McuError('image-digest', 'the MCUboot image states no digest');
  const region = file.subarray(0, regionEnd);
  const digest = createHash(hashNames.get(stated.type) ?? 'sha256')
    .update(region)
    .digest();
  if (!digest.equals(stated.value)) {
    throw new McuError('image-digest', 'the MCUboot image does not match its digest: it was damaged or changed');
  }
  return { region, digest, tlvs, sizeBytes: regionEnd + view.getUint16(regionEnd + 2, true) };
}

function checkFlags(flags: number): void {
  if ((flags & nonBootable) !== 0) throw unsupported('started: its flag is NON_BOOTABLE', 'without --non-bootable');
  if ((flags & compressedFlags) === compressedFlags) {
    throw unsupported('started: it is compressed by LZMA1 and LZMA2', 'with one --compression');
  }
  if ((flags & encryptedFlags) !== 0) {
    throw unsupported(`${checked} it is encrypted, and its digest is the decrypted image's`, 'without encryption');
  }
}

const checked = 'checked before it is written:';

function unsupported(why: string, how: string): McuError {
  return new McuError('image-unsupported', `the MCUboot image cannot be ${why}`, {
    advice: `sign the image ${how}`,
  });
}

function readTlvs(view: DataView, start: number, magic: number): Tlv[] {
  if (view.getUint16(start, true) !== magic) {
    throw new McuError('image-malformed', 'the MCUboot image has no TLVs after its body: it is not signed');
  }
  const end = start + view.getUint16(start + 2, true);
  if (end > view.byteLength) throw new McuError('image-truncated', 'the MCUboot image ends in its TLVs');
  const tlvs: Tlv[] = [];
  for (let at = start + 4; at < end;) {
    const length = at + 4 > end ? Number.POSITIVE_INFINITY : view.getUint16(at + 2, true);
    if (at + 4 + length > end || tlvs.length >= maxTlvs) {
      throw new McuError('image-malformed', 'the MCUboot image has impossible TLVs');
    }
    const value = new Uint8Array(view.buffer, view.byteOffset + at + 4, length);
    tlvs.push({ type: view.getUint16(at, true), value });
    at += 4 + length;
  }
  return tlvs;
}

function checkSignature(signed: Signed, key: KeyObject): void {
  const valid = signed.tlvs.some((entry) => isValid(entry, signed, key));
  if (valid) return;
  throw new McuError('image-signature', 'the MCUboot image is not signed with the key of this target');
}

function isValid({ type, value }: Tlv, { region, digest, tlvs }: Signed, key: KeyObject): boolean {
  const kind = key.asymmetricKeyType;
  const isPure = tlvs.some((entry) => entry.type === tlv.pureSignature);
  if (type === tlv.ecdsa && kind === 'ec') return verify('sha256', region, key, derPrefix(value));
  if (type === tlv.ed25519 && kind === 'ed25519') return verify(undefined, isPure ? region : digest, key, value);
  if ((type === tlv.rsa2048 || type === tlv.rsa3072) && kind === 'rsa') {
    return verify('sha256', region, { key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 }, value);
  }
  return false;
}

/**
 * A signature without padding: imgtool may add zeros behind the DER sequence of an ECDSA signature (short form: at most
 * 127 bytes).
 */
function derPrefix(value: Uint8Array): Uint8Array {
  const [, length = 0] = value;
  return value.subarray(0, 2 + length);
}
