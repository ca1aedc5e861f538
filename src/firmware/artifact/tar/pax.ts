import { VerificationError } from '../../errors.ts';
import { quoted } from '../refusal.ts';
import { NAME_FIELD_BYTES, OCTAL_SIZE_END, malformed } from './tar-header.ts';

/** The properties that pax records override for the file that follows (POSIX.1-2001, pax, "Extended Header"). */
export interface PaxOverrides {
  readonly path?: string | undefined;
  readonly sizeBytes?: number | undefined;
}

interface TarFile {
  readonly name: string;
  readonly sizeBytes: number;
}

/** Owners and times that a plain header cannot hold; they have no effect here. */
const withoutEffect = new Set(['mtime', 'atime', 'ctime', 'uid', 'gid', 'uname', 'gname']);

export function parsePaxRecords(bytes: Uint8Array, where: string): PaxOverrides {
  const records = splitRecords(Buffer.from(bytes).toString('latin1'), where);
  for (const key of records.keys()) {
    if (!withoutEffect.has(key) && key !== 'path' && key !== 'size') {
      throw new VerificationError('tar-unsupported', `${where}: the pax record ${quoted(key)} is not allowed`);
    }
  }
  return { path: records.get('path'), sizeBytes: parseSize(records.get('size'), where) };
}

/**
 * Applies pax records. They may only say what the header itself cannot: a name that is longer than its field, which
 * then holds the beginning of the name, and a size from 8 GiB on, where the field is 0. Go's archive/tar writes both
 * like this. Anything else would make two readers see two different archives.
 */
export function applyPax(file: TarFile, overrides: PaxOverrides, where: string): TarFile {
  const { path, sizeBytes } = overrides;
  const pathNeeded = path === undefined || (path.length > NAME_FIELD_BYTES && path.startsWith(file.name));
  const pathTruncated = path === undefined || file.name.length === NAME_FIELD_BYTES;
  if (!pathNeeded || !pathTruncated) throw overridden(where, file.name, 'another name');
  const sizeNeeded = sizeBytes === undefined || (sizeBytes >= OCTAL_SIZE_END && file.sizeBytes === 0);
  if (!sizeNeeded) throw overridden(where, file.name, 'another size');
  return { name: path ?? file.name, sizeBytes: sizeBytes ?? file.sizeBytes };
}

/** Splits pax records. Each one is its own length in decimal, a space, `key=value` and a line end. */
function splitRecords(text: string, where: string): Map<string, string> {
  const records = new Map<string, string>();
  let rest = text;
  while (rest !== '') {
    const lengthBytes = Number(/^([1-9][0-9]{0,4}) /.exec(rest)?.[1] ?? 0);
    const [, key, value] = /^[0-9]+ ([^=\0]+)=([^\0]*)\n$/.exec(rest.slice(0, lengthBytes)) ?? [];
    const whole = lengthBytes <= rest.length;
    if (key === undefined || value === undefined || !whole) throw malformed(where, 'a pax record is garbled');
    if (records.has(key)) throw malformed(where, `the pax record ${quoted(key)} is listed twice`);
    records.set(key, value);
    rest = rest.slice(lengthBytes);
  }
  return records;
}

function parseSize(value: string | undefined, where: string): number | undefined {
  if (value === undefined) return undefined;
  const sizeBytes = /^[0-9]{1,16}$/.test(value) ? Number(value) : Number.POSITIVE_INFINITY;
  if (!Number.isSafeInteger(sizeBytes)) throw malformed(where, 'a pax size is negative or beyond all measure');
  return sizeBytes;
}

function overridden(where: string, name: string, what: string): VerificationError {
  return new VerificationError('tar-unsupported', `${where}: a pax record gives member ${quoted(name)} ${what}`);
}
