import type { ByteReader } from '../../byte-reader.ts';
import { VerificationError } from '../../errors.ts';
import { quoted } from '../refusal.ts';
import { applyPax, parsePaxRecords } from './pax.ts';
import { BLOCK_BYTES, malformed, parseTarHeader } from './tar-header.ts';
import type { TarHeader } from './tar-header.ts';

const MEMBERS_LIMIT = 1024;
const PAX_LIMIT_BYTES = 8 * 1024;
/** GNU tar fills its last record with zeros: up to 10 KiB, or more with a larger blocking factor. */
const FILL_LIMIT_BYTES = 64 * 1024;

/** The size of the end of an archive: two blocks of zeros. */
const END_BYTES = 2 * BLOCK_BYTES;

export interface TarMember {
  readonly name: string;
  readonly sizeBytes: number;
}

/**
 * Reads a tar archive member by member, and accepts only plain files with distinct, harmless names. Throws
 * VerificationErrors (`tar-*`), or `firmware-truncated` of the ByteReader for a truncated archive.
 */
export class TarReader {
  readonly #bytes: ByteReader;
  readonly #where: string;
  readonly #names = new Set<string>();
  #member: TarMember | undefined;
  #contentEnd = 0;

  /** `where` names the archive in errors. */
  constructor(bytes: ByteReader, where: string) {
    this.#bytes = bytes;
    this.#where = where;
    this.#contentEnd = bytes.offset;
  }

  /** A reader for an archive that another reader left within the content of a member. */
  static within(bytes: ByteReader, where: string, member: TarMember & { readonly leftBytes: number }): TarReader {
    const reader = new TarReader(bytes, where);
    reader.#names.add(member.name);
    reader.#member = member;
    reader.#contentEnd += member.leftBytes;
    return reader;
  }

  /** The bytes of the current member's content that were not taken yet. */
  get leftBytes(): number {
    return this.#contentEnd - this.#bytes.offset;
  }

  /**
   * The next member; undefined after the proper end of the archive. The content of the previous member must have been
   * taken completely.
   */
  async next(): Promise<TarMember | undefined> {
    await this.#leaveMember();
    const member = await this.#readHeaders();
    if (member === undefined) return undefined;
    requireHarmlessName(member.name, this.#place());
    if (this.#names.has(member.name)) {
      throw new VerificationError('tar-duplicate', `${this.#where}: member ${quoted(member.name)} is listed twice`);
    }
    if (this.#names.size === MEMBERS_LIMIT) throw malformed(this.#where, `more than ${MEMBERS_LIMIT} members`);
    this.#names.add(member.name);
    this.#member = member;
    this.#contentEnd = this.#bytes.offset + member.sizeBytes;
    this.#bytes.requireLeft(member.sizeBytes + paddingOf(member.sizeBytes) + END_BYTES);
    return member;
  }

  /** Yields the current member's content. Each slice is valid until the next one is requested. */
  content(): AsyncIterable<Uint8Array> {
    return this.#bytes.stream(this.leftBytes);
  }

  /** The whole content of the current member. Throws if it is larger than `limitBytes`. */
  async read(limitBytes: number): Promise<Uint8Array> {
    const sizeBytes = this.leftBytes;
    if (sizeBytes > limitBytes) {
      const name = quoted(this.#member?.name ?? '');
      throw new VerificationError('artifact-malformed', `${this.#where}: ${name} is larger than ${limitBytes} bytes`);
    }
    return this.#bytes.read(sizeBytes);
  }

  async #leaveMember(): Promise<void> {
    const { offset } = this.#bytes;
    if (offset < this.#contentEnd) {
      const name = quoted(this.#member?.name ?? '');
      throw malformed(this.#where, `${this.#contentEnd - offset} bytes follow the end of the content of ${name}`);
    }
    await this.#skipPadding(this.#member?.sizeBytes ?? 0);
    this.#member = undefined;
  }

  async #skipPadding(sizeBytes: number): Promise<void> {
    const padding = await this.#bytes.read(paddingOf(sizeBytes));
    if (padding.some((byte) => byte !== 0)) throw malformed(this.#place(), 'the padding of a member is not zero');
  }

  async #readHeaders(): Promise<TarMember | undefined> {
    const header = await this.#readHeader();
    if (header.kind === 'zero-block') return this.#requireEnd();
    if (header.kind === 'file') return header;
    if (header.sizeBytes > PAX_LIMIT_BYTES) throw malformed(this.#place(), 'pax records are too large');
    const overrides = parsePaxRecords(await this.#bytes.read(header.sizeBytes), this.#place());
    await this.#skipPadding(header.sizeBytes);
    const file = await this.#readHeader();
    if (file.kind !== 'file') throw malformed(this.#place(), 'pax records without a file');
    return applyPax(file, overrides, this.#place());
  }

  async #readHeader(): Promise<TarHeader> {
    const place = this.#place();
    return parseTarHeader(await this.#bytes.read(BLOCK_BYTES), place);
  }

  async #requireEnd(): Promise<undefined> {
    const second = await this.#readHeader();
    if (second.kind !== 'zero-block') throw malformed(this.#place(), 'the end mark is only half there');
    let fillBytes = 0;
    for await (const chunk of this.#bytes.rest()) {
      fillBytes += chunk.length;
      if (fillBytes > FILL_LIMIT_BYTES || chunk.some((byte) => byte !== 0)) {
        throw malformed(this.#place(), 'something stands behind the end of the archive');
      }
    }
    return undefined;
  }

  #place(): string {
    return `${this.#where}, byte ${this.#bytes.offset}`;
  }
}

function paddingOf(sizeBytes: number): number {
  return (BLOCK_BYTES - (sizeBytes % BLOCK_BYTES)) % BLOCK_BYTES;
}

function requireHarmlessName(name: string, where: string): void {
  const parts = name.split('/');
  if (/^[\x20-\x7e]+$/.test(name) && !parts.some((part) => part === '' || part === '.' || part === '..')) return;
  throw new VerificationError('tar-name', `${where}: the name ${quoted(name)} is absolute, climbs out or is garbled`);
}
