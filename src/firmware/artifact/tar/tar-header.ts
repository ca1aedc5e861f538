import { VerificationError } from '../../errors.ts';
import { quoted } from '../refusal.ts';

/**
 * One header block of a tar archive: POSIX.1-1988 ustar as Go's archive/tar writes it (and so mender-artifact), or GNU
 * tar for a regular file. Fields that do not concern names and contents (mode, owner, times) are ignored.
 */
export type TarHeader =
  | { readonly kind: 'zero-block' }
  | { readonly kind: 'file'; readonly name: string; readonly sizeBytes: number }
  | { readonly kind: 'pax-records'; readonly sizeBytes: number };

export const BLOCK_BYTES = 512;

/** The first size that does not fit into the eleven octal digits of a header. */
export const OCTAL_SIZE_END = 8 ** 11;

export const NAME_FIELD_BYTES = 100;

const magics = new Set(['ustar\x0000', 'ustar  \0']);

const refusedTypes: Readonly<Record<string, string>> = {
  1: 'a hard link',
  2: 'a symbolic link',
  3: 'a character device',
  4: 'a block device',
  5: 'a directory',
  6: 'a FIFO',
  7: 'a contiguous file',
  g: 'a global pax header',
  K: 'a GNU long link name',
  L: 'a GNU long name',
  M: 'a continued file',
  S: 'a sparse file',
  V: 'a volume label',
};

/** `where` names the archive and the place in it, for errors. */
export function parseTarHeader(block: Uint8Array, where: string): TarHeader {
  if (block.every((byte) => byte === 0)) return { kind: 'zero-block' };
  const fields = Buffer.from(block.buffer, block.byteOffset, block.byteLength).toString('latin1');
  requireChecksum(block, fields, where);
  if (!magics.has(fields.slice(257, 265))) throw malformed(where, 'not a ustar header');
  const type = fields.charAt(156);
  const sizeBytes = parseSize(block.subarray(124, 136), where);
  if (type === 'x') return { kind: 'pax-records', sizeBytes };
  const name = untilNul(fields.slice(0, NAME_FIELD_BYTES));
  if (type !== '0' && type !== '\0') {
    const what = refusedTypes[type] ?? `of the unknown type ${quoted(type)}`;
    throw new VerificationError(
      'tar-unsupported',
      `${where}: member ${quoted(name)} is ${what}; only files are allowed`,
    );
  }
  if (fields.charAt(345) !== '\0') throw new VerificationError('tar-unsupported', `${where}: a name prefix is used`);
  return { kind: 'file', name, sizeBytes };
}

export function malformed(where: string, why: string): VerificationError {
  return new VerificationError('tar-malformed', `${where}: ${why}`);
}

function requireChecksum(block: Uint8Array, fields: string, where: string): void {
  const stored = /^([0-7]{1,7})[\0 ]*$/.exec(fields.slice(148, 156))?.[1];
  const sum = block.reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 0x20 : byte), 0);
  if (stored === undefined || Number.parseInt(stored, 8) !== sum) {
    throw malformed(where, 'the checksum of a tar header is wrong');
  }
}

/** Guarantee `large-images`: parses a size: eleven octal digits, or from 8 GiB on GNU's base-256. */
function parseSize(field: Uint8Array, where: string): number {
  if ((field[0] ?? 0) < 0x80) {
    const digits = /^([0-7]{1,11})[\0 ]+$/.exec(Buffer.from(field).toString('latin1'))?.[1];
    if (digits === undefined) throw malformed(where, 'a size is not an octal number of at most 11 digits');
    return Number.parseInt(digits, 8);
  }
  const value = BigInt(`0x${Buffer.from(field).toString('hex')}`) - (1n << 95n);
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw malformed(where, 'a size is negative or beyond all measure');
  if (value < BigInt(OCTAL_SIZE_END)) throw malformed(where, 'a size is in base-256 without need');
  return Number(value);
}

function untilNul(field: string): string {
  const end = field.indexOf('\0');
  return end === -1 ? field : field.slice(0, end);
}
