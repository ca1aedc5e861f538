import { createHash, sign } from 'node:crypto';
import type { KeyObject } from 'node:crypto';

import fc from 'fast-check';

import { McuError } from '../../../../src/mcu/errors.ts';
import type { Segment } from '../../../../src/mcu/images/image.ts';

/** Segments as a linker would place them: sorted, with a gap between each, and not blank. */
export const layouts = fc
  .array(
    fc.record({ gap: fc.integer({ min: 1, max: 70_000 }), bytes: fc.uint8Array({ minLength: 1, maxLength: 300 }) }),
    {
      minLength: 1,
      maxLength: 6,
    },
  )
  .map((parts) => {
    let address = 0;
    return parts.map(({ gap, bytes }): Segment => {
      const start = address + gap;
      address = start + bytes.byteLength;
      return { address: start, bytes };
    });
  })
  .filter((segments) => segments.some(({ bytes }) => bytes.some((byte) => byte !== 0xff)));

export function plain(segments: readonly Segment[]): { address: number; bytes: number[] }[] {
  return segments.map(({ address, bytes }) => ({ address, bytes: [...bytes] }));
}

export function text(lines: string): Uint8Array {
  return Buffer.from(lines, 'latin1');
}

export function codeOf(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    if (error instanceof McuError) return error.code;
    throw error;
  }
  return 'accepted';
}

/** Intel HEX of segments below 64 KiB. */
export function intelHex(segments: readonly Segment[]): string {
  const line = (address: number, type: number, data: Uint8Array): string => {
    const record = Buffer.from([data.byteLength, address >> 8, address & 0xff, type, ...data]);
    const sum = record.reduce((total, byte) => total + byte, 0);
    return `:${record.toString('hex')}${Buffer.of(-sum & 0xff).toString('hex')}\n`.toUpperCase();
  };
  const records = segments.flatMap(({ address, bytes }) =>
    Array.from({ length: Math.ceil(bytes.byteLength / 16) }, (_, row) =>
      line(address + row * 16, 0, bytes.subarray(row * 16, row * 16 + 16)),
    ),
  );
  return [...records, line(0, 1, new Uint8Array())].join('');
}

export function sRecords(segments: readonly Segment[]): string {
  const line = (type: string, address: number, width: number, data: Uint8Array): string => {
    const body = Buffer.alloc(1 + width + data.byteLength);
    body[0] = width + data.byteLength + 1;
    body.writeUIntBE(address, 1, width);
    body.set(data, 1 + width);
    const sum = body.reduce((total, byte) => total + byte, 0);
    return `${type}${Buffer.concat([body, Buffer.of(~sum & 0xff)])
      .toString('hex')
      .toUpperCase()}`;
  };
  const records: string[] = [];
  for (const { address, bytes } of segments) {
    for (let at = 0; at < bytes.byteLength; at += 32)
      records.push(line('S3', address + at, 4, bytes.subarray(at, at + 32)));
  }
  const count = line('S5', records.length, 2, new Uint8Array());
  return [line('S0', 0, 2, text('test')), ...records, count, line('S7', 0, 4, new Uint8Array()), ''].join('\r\n');
}

export function elfFile(segments: readonly Segment[], machine: number, flags = 5): Buffer {
  const tableBytes = 32 * segments.length;
  const header = Buffer.alloc(52);
  header.set([0x7f, 0x45, 0x4c, 0x46, 1, 1, 1]);
  header.writeUInt16LE(2, 16);
  header.writeUInt16LE(machine, 18);
  header.writeUInt32LE(52, 28);
  header.writeUInt32LE(flags, 36);
  header.writeUInt16LE(32, 42);
  header.writeUInt16LE(segments.length, 44);
  let offset = 52 + tableBytes;
  const table = segments.map(({ address, bytes }) => {
    const entry = Buffer.alloc(32);
    entry.writeUInt32LE(1, 0);
    entry.writeUInt32LE(offset, 4);
    entry.writeUInt32LE(0x800000, 8); // the virtual address must not matter
    entry.writeUInt32LE(address, 12);
    entry.writeUInt32LE(bytes.byteLength, 16);
    offset += bytes.byteLength;
    return entry;
  });
  return Buffer.concat([header, ...table, ...segments.map(({ bytes }) => bytes)]);
}

/** A program for an AVR, with the note on its device as avr-gcc 5.4 links it. */
export function avrElfFile(segments: readonly Segment[], device: string, flags = 5): Buffer {
  const file = elfFile(segments, 83, flags);
  const words = [4, 32 + 1 + device.length + 1, 1, 0x525641, 0, 0x8000, 0x100, 0x800, 0, 0x400, 8, 1];
  const note = Buffer.concat([Buffer.from(Uint32Array.from(words).buffer), text(`\0${device}\0`)]);
  const section = Buffer.from(Uint32Array.of(0, 7, 0, 0, file.byteLength, note.byteLength, 0, 0, 4, 0).buffer);
  file.writeUInt32LE(file.byteLength + note.byteLength, 32);
  file.writeUInt16LE(40, 46);
  file.writeUInt16LE(1, 48);
  return Buffer.concat([file, note, section]);
}

/** `md5At`: the place of an MD5 checksum in each block, by the number of bytes before it. */
export function uf2File(segments: readonly Segment[], family: number, md5At?: (bytes: number) => number): Buffer {
  const payloads = segments.flatMap(({ address, bytes }) =>
    Array.from({ length: Math.ceil(bytes.byteLength / 256) }, (_, index) => ({
      address: address + index * 256,
      bytes: bytes.subarray(index * 256, index * 256 + 256),
    })),
  );
  return Buffer.concat(
    payloads.map(({ address, bytes }, number) => {
      const block = Buffer.alloc(512);
      const words = [0x0a324655, 0x9e5d5157, 0x2000, address, bytes.byteLength, number, payloads.length, family];
      for (const [index, word] of words.entries()) block.writeUInt32LE(word, index * 4);
      block.set(bytes, 32);
      if (md5At !== undefined) {
        const region = Buffer.from(Uint32Array.of(address, bytes.byteLength).buffer);
        block.writeUInt32LE(0x6000, 8);
        block.set([...region, ...createHash('md5').update(bytes).digest()], md5At(bytes.byteLength));
      }
      block.writeUInt32LE(0x0ab16f30, 508);
      return block;
    }),
  );
}

/** An image as imgtool signs it (MCUboot design, "Image format"). */
export function mcubootFile(
  body: Uint8Array,
  key?: KeyObject,
  protectedTlvs: Uint8Array = new Uint8Array(),
  major = 1,
): Buffer {
  const header = Buffer.alloc(32);
  header.writeUInt32LE(0x96f3b83d, 0);
  header.writeUInt16LE(32, 8);
  header.writeUInt16LE(protectedTlvs.byteLength, 10);
  header.writeUInt32LE(body.byteLength, 12);
  header.set(major === 1 ? [1, 2, 3, 0, 4, 0, 0, 0] : [major], 20);
  const region = Buffer.concat([header, body, protectedTlvs]);
  const digest = createHash('sha256').update(region).digest();
  const tlvs = [tlv(0x10, digest)];
  if (key?.asymmetricKeyType === 'ec')
    tlvs.push(tlv(0x22, Buffer.concat([sign('sha256', region, key), Buffer.alloc(2)])));
  if (key?.asymmetricKeyType === 'ed25519') tlvs.push(tlv(0x24, sign(undefined, digest, key)));
  if (key?.asymmetricKeyType === 'rsa') {
    tlvs.push(tlv(0x20, sign('sha256', region, { key, padding: 6, saltLength: 32 })));
  }
  return Buffer.concat([region, tlvArea(0x6907, tlvs)]);
}

export function tlv(type: number, value: Uint8Array): Buffer {
  const head = Buffer.alloc(4);
  head.writeUInt16LE(type, 0);
  head.writeUInt16LE(value.byteLength, 2);
  return Buffer.concat([head, value]);
}

export function tlvArea(magic: number, tlvs: readonly Buffer[]): Buffer {
  const body = Buffer.concat(tlvs);
  const head = Buffer.alloc(4);
  head.writeUInt16LE(magic, 0);
  head.writeUInt16LE(4 + body.byteLength, 2);
  return Buffer.concat([head, body]);
}
