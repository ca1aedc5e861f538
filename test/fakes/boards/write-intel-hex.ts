import type { Image } from '../../../src/mcu/images/image.ts';
import { sumOf } from '../../../src/mcu/images/lines.ts';

/** Intel HEX with 16 data bytes per line, as a linker writes it. */
export function writeIntelHex(image: Image): string {
  const lines: string[] = [];
  let base = 0;
  for (const segment of image.segments) {
    for (let from = 0; from < segment.bytes.byteLength;) {
      const address = segment.address + from;
      if (address >>> 16 !== base) {
        base = address >>> 16;
        lines.push(record(0x04, 0, Uint8Array.of(base >>> 8, base & 0xff)));
      }
      const length = Math.min(16, segment.bytes.byteLength - from, 0x10000 - (address & 0xffff));
      lines.push(record(0x00, address & 0xffff, segment.bytes.subarray(from, from + length)));
      from += length;
    }
  }
  lines.push(record(0x01, 0, new Uint8Array()), '');
  return lines.join('\n');
}

function record(type: number, offset: number, data: Uint8Array): string {
  const bytes = Uint8Array.of(data.byteLength, offset >>> 8, offset & 0xff, type, ...data);
  const checksum = (0x100 - sumOf(bytes)) & 0xff;
  return `:${Buffer.from([...bytes, checksum])
    .toString('hex')
    .toUpperCase()}`;
}
