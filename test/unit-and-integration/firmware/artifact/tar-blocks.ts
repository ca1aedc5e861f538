/** Tar archives block by block, so that a test can write exactly the wrong thing. POSIX ustar as Go's archive/tar has it. */
export interface TarMemberBytes {
  readonly name: string;
  readonly content: Uint8Array;
}

export interface HeaderFields {
  readonly name: string;
  readonly sizeBytes: number;
  readonly type?: string;
  readonly magic?: string;
  /** Raw texts that replace fields. */
  readonly sizeField?: Buffer;
  readonly checksumField?: string;
  readonly prefix?: string;
}

export const tarEnd = Buffer.alloc(1024);

const OCTAL_SIZE_END = 8 ** 11;

export function tarHeader(fields: HeaderFields): Buffer {
  const block = Buffer.alloc(512);
  block.write(fields.name, 0, 100, 'latin1');
  block.write('0000600\x000000000\x000000000\0', 100, 'latin1');
  block.write(`${fields.sizeBytes.toString(8).padStart(11, '0')}\0`, 124, 'latin1');
  fields.sizeField?.copy(block, 124, 0, 12);
  block.write('00000000000\0', 136, 'latin1');
  block.write(fields.type ?? '0', 156, 'latin1');
  block.write(fields.magic ?? 'ustar\x0000', 257, 'latin1');
  block.write(fields.prefix ?? '', 345, 155, 'latin1');
  block.fill(' ', 148, 156);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(fields.checksumField ?? `${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return block;
}

export function padded(content: Uint8Array): Buffer {
  return Buffer.concat([content, Buffer.alloc((512 - (content.length % 512)) % 512)]);
}

export function paxRecord(key: string, value: string): string {
  const body = ` ${key}=${value}\n`;
  let length = body.length;
  while (`${length}${body}`.length !== length) length = `${length}${body}`.length;
  return `${length}${body}`;
}

/** A pax extended header with these records, which speaks of the file after it. */
export function paxHeader(records: string): Buffer {
  const content = Buffer.from(records, 'latin1');
  return Buffer.concat([tarHeader({ name: 'PaxHeaders.0/x', sizeBytes: content.length, type: 'x' }), padded(content)]);
}

/** The header of a plain file; with pax records where Go's archive/tar, and so mender-artifact, writes them. */
export function fileHeader(name: string, sizeBytes: number): Buffer {
  const large = sizeBytes >= OCTAL_SIZE_END;
  const records = (name.length > 100 ? paxRecord('path', name) : '') + (large ? paxRecord('size', `${sizeBytes}`) : '');
  const header = tarHeader({ name: name.slice(0, 100), sizeBytes: large ? 0 : sizeBytes });
  return records === '' ? header : Buffer.concat([paxHeader(records), header]);
}

export function tarFile(name: string, content: Uint8Array): Buffer {
  return Buffer.concat([fileHeader(name, content.length), padded(content)]);
}

export function tarOf(members: readonly TarMemberBytes[]): Buffer {
  return Buffer.concat([...members.map(({ name, content }) => tarFile(name, content)), tarEnd]);
}
