import { McuError } from '../errors.ts';

/** The values that SMP encodes in CBOR: no floats, no tags. */
export type Cbor = number | boolean | string | Uint8Array | undefined | readonly Cbor[] | CborMap;
export interface CborMap {
  readonly [key: string]: Cbor;
}

const maxDepth = 8;
const major = { unsigned: 0, negative: 1, bytes: 2, text: 3, array: 4, map: 5, simple: 7 } as const;
const indefinite = 31;
const breakByte = 0xff;

/** Encodes with definite lengths and the shortest heads (RFC 8949, section 3). */
export function encodeCbor(value: Cbor): Uint8Array {
  if (value === undefined) return Uint8Array.of(0xf6);
  if (typeof value === 'boolean') return Uint8Array.of(value ? 0xf5 : 0xf4);
  if (typeof value === 'number') return value < 0 ? head(major.negative, -1 - value) : head(major.unsigned, value);
  if (typeof value === 'string') return Buffer.concat([head(major.text, Buffer.byteLength(value)), Buffer.from(value)]);
  if (value instanceof Uint8Array) return Buffer.concat([head(major.bytes, value.byteLength), value]);
  if (isArray(value)) return Buffer.concat([head(major.array, value.length), ...value.map(encodeCbor)]);
  const entries = Object.entries(value);
  return Buffer.concat([
    head(major.map, entries.length),
    ...entries.flatMap(([key, entry]) => [encodeCbor(key), encodeCbor(entry)]),
  ]);
}

/** Decodes one value and ignores the bytes after it. Throws `board-bad-response`. */
export function decodeCbor(bytes: Uint8Array): Cbor {
  return new Decoder(bytes).value(0);
}

export function isMap(value: Cbor): value is CborMap {
  return typeof value === 'object' && !(value instanceof Uint8Array) && !isArray(value);
}

export function isArray(value: Cbor): value is readonly Cbor[] {
  return Array.isArray(value);
}

function head(kind: number, value: number): Uint8Array {
  if (value < 24) return Uint8Array.of((kind << 5) | value);
  const width = value < 0x100 ? 1 : value < 0x10000 ? 2 : 4;
  const bytes = Buffer.alloc(1 + width);
  bytes[0] = (kind << 5) | (23 + (width === 4 ? 3 : width));
  bytes.writeUIntBE(value, 1, width);
  return bytes;
}

class Decoder {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  value(depth: number): Cbor {
    if (depth > maxDepth) throw malformed();
    const first = this.#byte();
    const kind = first >> 5;
    const length = this.#argument(first & 0x1f);
    switch (kind) {
      case major.unsigned:
        return known(length);
      case major.negative:
        return -1 - known(length);
      case major.bytes:
        return this.#string(length, major.bytes, depth);
      case major.text:
        return this.#string(length, major.text, depth).toString('utf8');
      case major.array:
        return this.#items(length, () => this.value(depth + 1));
      case major.map:
        return Object.fromEntries(this.#items(length, () => [this.#key(depth), this.value(depth + 1)]));
      default:
        return simple(first);
    }
  }

  #key(depth: number): string {
    const key = this.value(depth + 1);
    if (typeof key !== 'string') throw malformed();
    return key;
  }

  /** Returns the argument of a head, or undefined if the length is indefinite. */
  #argument(info: number): number | undefined {
    if (info < 24) return info;
    if (info === indefinite) return undefined;
    const width = { 24: 1, 25: 2, 26: 4 }[info];
    if (width === undefined || this.#at + width > this.#bytes.byteLength) throw malformed();
    this.#at += width;
    return this.#bytes.readUIntBE(this.#at - width, width);
  }

  #string(length: number | undefined, kind: number, depth: number): Buffer {
    if (length === undefined) {
      return Buffer.concat(
        this.#items(undefined, () => {
          if (this.#bytes.readUInt8(this.#at) >> 5 !== kind || depth > maxDepth) throw malformed();
          return this.#string(this.#argument(this.#byte() & 0x1f), kind, depth + 1);
        }),
      );
    }
    if (this.#at + length > this.#bytes.byteLength) throw malformed();
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  #items<T>(length: number | undefined, read: () => T): T[] {
    const items: T[] = [];
    while (length === undefined ? !this.#ends() : items.length < length) items.push(read());
    return items;
  }

  #ends(): boolean {
    if (this.#at >= this.#bytes.byteLength) throw malformed();
    if (this.#bytes[this.#at] !== breakByte) return false;
    this.#at += 1;
    return true;
  }

  #byte(): number {
    const byte = this.#bytes[this.#at];
    if (byte === undefined) throw malformed();
    this.#at += 1;
    return byte;
  }
}

function known(length: number | undefined): number {
  if (length === undefined) throw malformed();
  return length;
}

function simple(first: number): Cbor {
  if (first === 0xf4) return false;
  if (first === 0xf5) return true;
  if (first === 0xf6 || first === 0xf7) return undefined;
  throw malformed();
}

function malformed(): McuError {
  return new McuError('board-bad-response', 'the answer of the bootloader is not CBOR');
}
