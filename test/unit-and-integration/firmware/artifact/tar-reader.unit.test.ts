import { Readable } from 'node:stream';

import fc from 'fast-check';
import { pack } from 'tar-stream';
import type { Header } from 'tar-stream';
import { describe, expect, test } from 'vitest';

import { TarReader } from '../../../../src/firmware/artifact/tar/tar-reader.ts';
import { ByteReader } from '../../../../src/firmware/byte-reader.ts';
import { VerificationError } from '../../../../src/firmware/errors.ts';
import { chunkSizes, gathered, inChunks } from '../chunks.ts';
import { fileHeader, padded, paxHeader, paxRecord, tarEnd, tarFile, tarHeader, tarOf } from './tar-blocks.ts';
import type { TarMemberBytes } from './tar-blocks.ts';

type PartialHeader = Partial<Header> & Pick<Header, 'name'>;

const hello = Buffer.from('hello');

async function membersOf(archive: Uint8Array, sizes: readonly number[] = [4096]): Promise<TarMemberBytes[]> {
  await using bytes = new ByteReader(inChunks(archive, sizes), 'test');
  const tar = new TarReader(bytes, 'test');
  const members: TarMemberBytes[] = [];
  for (let member = await tar.next(); member !== undefined; member = await tar.next()) {
    members.push({ name: member.name, content: await gathered(tar.content()) });
    expect(members.at(-1)?.content).toHaveLength(member.sizeBytes);
  }
  return members;
}

async function packed(...entries: readonly (PartialHeader & { readonly content?: string })[]): Promise<Buffer> {
  const archive = pack();
  for (const { content, ...header } of entries) archive.entry(header, content ?? '');
  archive.finalize();
  return gathered(Readable.from(archive));
}

const fileNames = fc.stringMatching(/^[a-z0-9_-]{1,150}$/);
const archives = fc.uniqueArray(
  fc.record<TarMemberBytes>({ name: fileNames, content: fc.uint8Array({ maxLength: 1300 }) }),
  { maxLength: 6, selector: ({ name }) => name },
);

describe('the tar reader', () => {
  test('gives back every member whatever the chunks', async () => {
    await fc.assert(
      fc.asyncProperty(archives, chunkSizes(fc), async (members, sizes) => {
        const expected = members.map(({ name, content }) => ({ name, content: Buffer.from(content) }));
        expect(await membersOf(tarOf(members), sizes)).toEqual(expected);
      }),
    );
  });

  test('reads what another implementation writes', async () => {
    const archive = await packed({ name: 'a', content: 'one' }, { name: 'b/c', content: '' });
    expect(await membersOf(archive)).toEqual([
      { name: 'a', content: Buffer.from('one') },
      { name: 'b/c', content: Buffer.alloc(0) },
    ]);
  });

  test('reads GNU headers of plain files, and zeros that fill the last record', async () => {
    const header = tarHeader({ name: 'a', sizeBytes: 5, magic: 'ustar  \0' });
    const archive = Buffer.concat([header, padded(hello), tarEnd, Buffer.alloc(8192)]);
    expect(await membersOf(archive)).toEqual([{ name: 'a', content: hello }]);
  });

  test('takes pax owner and times, which change nothing', async () => {
    const records = paxRecord('mtime', '1700000000.5') + paxRecord('uname', 'someone') + paxRecord('uid', '99999999');
    expect(await membersOf(Buffer.concat([paxHeader(records), tarFile('a', hello), tarEnd]))).toHaveLength(1);
  });

  test('finds the end of members that were not taken at all, if they are empty', async () => {
    const tar = new TarReader(
      new ByteReader(inChunks(tarOf([{ name: 'a', content: Buffer.alloc(0) }]), [100]), 't'),
      't',
    );
    await tar.next();
    expect(await tar.next()).toBeUndefined();
  });

  test('does not go past content that was not taken', async () => {
    const tar = new TarReader(new ByteReader(inChunks(tarOf([{ name: 'a', content: hello }]), [100]), 't'), 't');
    await tar.next();
    await expect(tar.next()).rejects.toMatchObject({
      code: 'tar-malformed',
      message: 't: 5 bytes follow the end of the content of "a"',
    });
  });

  test('refuses to hold a member that is larger than allowed', async () => {
    const tar = new TarReader(new ByteReader(inChunks(tarOf([{ name: 'a', content: hello }]), [100]), 't'), 't');
    await tar.next();
    await expect(tar.read(4)).rejects.toMatchObject({ code: 'artifact-malformed' });
  });
});

/** Sizes from 8 GiB on are real: only the header is read. */
const eightGiB = 8 ** 11;

describe('sizes beyond what octal digits can tell', () => {
  async function sizeOf(archive: Buffer): Promise<number | undefined> {
    const tar = new TarReader(new ByteReader(inChunks(archive, [512]), 'test'), 'test');
    return (await tar.next())?.sizeBytes;
  }

  function base256(value: bigint): Buffer {
    const field = Buffer.from(value.toString(16).padStart(24, '0'), 'hex');
    field[0] = 0x80;
    return field;
  }

  test.each([eightGiB, eightGiB + 1, Number.MAX_SAFE_INTEGER])('%i is in a pax record', async (sizeBytes) => {
    expect(await sizeOf(fileHeader('image', sizeBytes))).toBe(sizeBytes);
  });

  test.each([eightGiB, Number.MAX_SAFE_INTEGER])('%i is in base-256', async (sizeBytes) => {
    expect(await sizeOf(tarHeader({ name: 'image', sizeBytes: 0, sizeField: base256(BigInt(sizeBytes)) }))).toBe(
      sizeBytes,
    );
  });

  test('the largest octal size is taken as it is', async () => {
    expect(await sizeOf(tarHeader({ name: 'image', sizeBytes: eightGiB - 1 }))).toBe(eightGiB - 1);
  });

  test.each([
    ['beyond safe integers in base-256', { sizeField: base256(2n ** 53n) }],
    ['negative in base-256', { sizeField: Buffer.alloc(12, 0xff) }],
    ['small in base-256', { sizeField: base256(BigInt(eightGiB - 1)) }],
    ['negative in octal', { sizeField: Buffer.from('-0000000001\0') }],
    ['of twelve octal digits', { sizeField: Buffer.from('777777777777') }],
    ['not octal', { sizeField: Buffer.from('00000000008\0') }],
    ['empty', { sizeField: Buffer.alloc(12) }],
    ['garbled behind the digits', { sizeField: Buffer.from('0000001\x001234') }],
  ])('a size that is %s is refused', async (_, { sizeField }) => {
    await expect(sizeOf(tarHeader({ name: 'image', sizeBytes: 0, sizeField }))).rejects.toMatchObject({
      code: 'tar-malformed',
    });
  });

  test.each([
    ['contradicts the header', paxRecord('size', '7'), 5],
    ['says what the header could say', paxRecord('size', '5'), 0],
    ['comes beside a size in the header', paxRecord('size', `${eightGiB}`), 5],
  ])('a pax size that %s is refused', async (_, records, sizeBytes) => {
    const archive = Buffer.concat([paxHeader(records), tarHeader({ name: 'a', sizeBytes }), padded(hello), tarEnd]);
    await expect(sizeOf(archive)).rejects.toMatchObject({ code: 'tar-unsupported' });
  });

  test.each(['-1', '9007199254740992', '1e9', ' 5', '0x10', ''])('the pax size %j is refused', async (value) => {
    const archive = Buffer.concat([paxHeader(paxRecord('size', value)), tarFile('a', hello), tarEnd]);
    await expect(sizeOf(archive)).rejects.toMatchObject({ code: 'tar-malformed' });
  });
});

describe('the tar reader refuses', () => {
  async function refusal(archive: Uint8Array): Promise<VerificationError> {
    const error: unknown = await membersOf(archive).then(
      () => undefined,
      (error: unknown) => error,
    );
    if (!(error instanceof VerificationError)) throw new Error(`not refused: ${String(error)}`);
    expect(error.message).toMatch(/^test[:,] ?[\x20-\x7e]+$/);
    return error;
  }

  test.each<PartialHeader>([
    { name: 'x', type: 'link', linkname: '/etc/passwd' },
    { name: 'x', type: 'symlink', linkname: '/etc/passwd' },
    { name: 'x', type: 'character-device', devmajor: 1, devminor: 3 },
    { name: 'x', type: 'block-device', devmajor: 8, devminor: 0 },
    { name: 'x', type: 'fifo' },
    { name: 'x', type: 'directory' },
    { name: 'x', type: 'contiguous-file' },
  ])('a member of type $type', async (header) => {
    expect(await refusal(await packed(header))).toMatchObject({ code: 'tar-unsupported' });
  });

  test.each(['S', 'g', 'K', 'L', 'M', 'V', 'A', '8'])('a member of type %j', async (type) => {
    const archive = Buffer.concat([tarHeader({ name: 'x', sizeBytes: 5, type }), padded(hello), tarEnd]);
    expect(await refusal(archive)).toMatchObject({ code: 'tar-unsupported' });
  });

  test.each(['../a', '..', 'a/../b', 'a/..', '/etc/passwd', './a', 'a//b', 'a/', '', 'a\nb', 'a\u001b[2J', 'a\u00e4'])(
    'the name %j',
    async (name) => {
      expect(await refusal(tarOf([{ name, content: hello }]))).toMatchObject({ code: 'tar-name' });
    },
  );

  test('a name that climbs out by way of a pax record', async () => {
    const archive = tarOf([{ name: `${'a/'.repeat(60)}../b`, content: hello }]);
    expect(await refusal(archive)).toMatchObject({ code: 'tar-name' });
  });

  test.each([
    ['that the header could hold', paxRecord('path', 'b'), 'b'],
    ['that begins otherwise', paxRecord('path', `b${'a'.repeat(120)}`), 'a'.repeat(100)],
    ['although the header holds a short one', paxRecord('path', 'a'.repeat(120)), 'a'],
  ])('a pax name %s', async (_, records, name) => {
    const archive = Buffer.concat([paxHeader(records), tarFile(name, hello), tarEnd]);
    expect(await refusal(archive)).toMatchObject({ code: 'tar-unsupported' });
  });

  test.each(['GNU.sparse.major', 'GNU.sparse.size', 'linkpath', 'SCHILY.xattr.user.a', 'hdrcharset', 'comment'])(
    'the pax record %s',
    async (key) => {
      const archive = Buffer.concat([paxHeader(paxRecord(key, '1')), tarFile('a', hello), tarEnd]);
      expect(await refusal(archive)).toMatchObject({ code: 'tar-unsupported' });
    },
  );

  test.each([
    ['garbled', 'what?'],
    ['longer than they are', '99 path=a\n'],
    ['shorter than they are', '5 path=a\n'],
    ['without an end', '9 path=a '],
    ['with a NUL', paxRecord('uname', 'a\0b')],
    ['twice the same', paxRecord('uid', '1') + paxRecord('uid', '2')],
  ])('pax records that are %s', async (_, records) => {
    const archive = Buffer.concat([paxHeader(records), tarFile('a', hello), tarEnd]);
    expect(await refusal(archive)).toMatchObject({ code: 'tar-malformed' });
  });

  test('pax records before no file', async () => {
    const twice = Buffer.concat([
      paxHeader(paxRecord('uid', '1')),
      paxHeader(paxRecord('uid', '1')),
      tarFile('a', hello),
    ]);
    expect(await refusal(Buffer.concat([twice, tarEnd]))).toMatchObject({ code: 'tar-malformed' });
    const atEnd = Buffer.concat([paxHeader(paxRecord('uid', '1')), tarEnd]);
    expect(await refusal(atEnd)).toMatchObject({ code: 'tar-malformed' });
  });

  test('pax records without measure', async () => {
    const records = paxRecord('uname', 'a'.repeat(9000));
    expect(await refusal(Buffer.concat([paxHeader(records), tarFile('a', hello), tarEnd]))).toMatchObject({
      code: 'tar-malformed',
    });
  });

  test('the same name twice', async () => {
    const archive = tarOf([
      { name: 'a', content: hello },
      { name: 'b', content: hello },
      { name: 'a', content: hello },
    ]);
    expect(await refusal(archive)).toMatchObject({
      code: 'tar-duplicate',
      message: 'test: member "a" is listed twice',
    });
  });

  test('more members than anyone needs', async () => {
    const members = Array.from({ length: 1025 }, (_, number) => ({ name: `m${number}`, content: Buffer.alloc(0) }));
    expect(await refusal(tarOf(members))).toMatchObject({ code: 'tar-malformed' });
  });

  test.each([
    ['a wrong checksum', tarHeader({ name: 'a', sizeBytes: 0, checksumField: '000001\0 ' })],
    ['a checksum that is no number', tarHeader({ name: 'a', sizeBytes: 0, checksumField: '00x001\0 ' })],
    ['no ustar magic', tarHeader({ name: 'a', sizeBytes: 0, magic: '' })],
    ['bytes that are no tar at all', Buffer.alloc(512, 'x')],
    ['a name prefix', tarHeader({ name: 'a', sizeBytes: 0, prefix: '../../..' })],
    ['a member behind one block of the end mark', Buffer.concat([Buffer.alloc(512), tarFile('a', Buffer.alloc(0))])],
    ['padding that is not zero', Buffer.concat([fileHeader('a', 5), hello, Buffer.alloc(507, 1)])],
    ['something behind the end', Buffer.concat([tarEnd, Buffer.from('x')])],
    ['zeros without end behind the end', Buffer.concat([tarEnd, Buffer.alloc(70_000)])],
  ])('%s', async (_, archive) => {
    expect((await refusal(Buffer.concat([archive, tarEnd]))).code).toMatch(/^tar-(malformed|unsupported)$/);
  });

  test('refuses a truncated archive, wherever it ends', async () => {
    const archive = tarOf([
      { name: 'a', content: hello },
      { name: 'b', content: Buffer.alloc(600, 1) },
    ]);
    for (let length = 0; length < archive.length; length += 1) {
      await expect(membersOf(archive.subarray(0, length), [512])).rejects.toMatchObject({ code: 'firmware-truncated' });
    }
  });
});
