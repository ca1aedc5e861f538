import { constants, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { McuError } from '../../../../src/mcu/errors.ts';
import { foreignKind } from '../../../../src/mcu/images/foreign-file.ts';
import { makeImage } from '../../../../src/mcu/images/image.ts';
import { readImage } from '../../../../src/mcu/images/read-image.ts';
import { writeIntelHex } from '../../../fakes/boards/write-intel-hex.ts';
import { codeOf, text } from './build.ts';

const program = Uint8Array.from({ length: 300 }, (_, index) => (index * 7 + 3) & 0xff);
program.set([0xff, 0xcf]);
const hex = writeIntelHex(makeImage('raw', [{ address: 0, bytes: program }]));
const tar = Buffer.alloc(1024);
tar.write('app.hex');
tar.write('ustar', 257);

function utf16be(characters: string): Buffer {
  return Buffer.from(`\u{feff}${characters}`, 'utf16le').swap16();
}

/** Files that people and pipelines deliver by mistake. */
const foreign: readonly (readonly [kind: string, file: Uint8Array])[] = [
  ['a gzip file', gzipSync(text(hex))],
  ['a Zstandard file', zstdCompressSync(text(hex))],
  ['an xz file', Buffer.from('fd377a585a000004e6d6b446', 'hex')],
  ['a bzip2 file', text('BZh91AY&SY\u0000\u00ff')],
  ['an LZ4 file', Buffer.from('04224d186440a7', 'hex')],
  ['a ZIP archive', Buffer.from('504b03041400000000000000', 'hex')],
  ['a 7-Zip archive', Buffer.from('377abcaf271c0004', 'hex')],
  ['a RAR archive', Buffer.from('526172211a070100', 'hex')],
  ['a cpio archive', Buffer.concat([text('070702'), new Uint8Array(104)])],
  ['an ar archive', text('!<arch>\ndebian-binary   1410122664  0     0     100644  4         `\n2.0\n\u0000')],
  ['a tar archive', tar],
  ['a DfuSe file', Buffer.concat([text('DfuSe\u0001'), program])],
  ['a U-Boot image', Buffer.concat([Buffer.from('27051956', 'hex'), program])],
  ['a device tree or FIT image', Buffer.concat([Buffer.from('d00dfeed', 'hex'), program])],
  ['a PNG picture', Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex')],
  ['a GIF picture', Buffer.concat([text('GIF89a'), program])],
  ['a JPEG picture', Buffer.concat([Buffer.from('ffd8ffe000104a464946', 'hex'), program])],
  ['an SQLite database', Buffer.concat([text('SQLite format 3\u0000'), program])],
  ['a SquashFS file system', Buffer.concat([text('hsqs'), program])],
  ['an lzip file', Buffer.concat([text('LZIP\u0001'), program])],
  ['a file of compress', Buffer.concat([Buffer.from('1f9d90', 'hex'), program])],
  ['a file encrypted by OpenSSL', Buffer.concat([text('Salted__'), program])],
  ['a Java class', Buffer.concat([Buffer.from('cafebabe00000041', 'hex'), program])],
  ['a Windows program', Buffer.concat([Buffer.from('4d5a90000300000004000000ffff0000', 'hex'), program])],
  ['an S-record file with symbols', text('$$ /tmp/hello\r\n  L0\u0001 $362\r\n$$ \r\nS9030000FC\r\n')],
  ['an LZMA file', Buffer.from('5d00008000ffffffffffffffff0034194aee8d', 'hex')],
  ['an LZMA file', Buffer.from('5d00000001e803000000000000001c80', 'hex')],
  ...[1, 5, 6, 9].map((level) => ['a zlib stream', deflateSync(text(hex.repeat(20)), { level })] as const),
  ['a zlib stream', deflateSync(program, { strategy: constants.Z_FIXED })],
  ['a PDF file', text('%PDF-1.7\n%\u00e2\u00e3\u00cf\u00d3\n\u0000')],
  ['an HTML or XML file', text('<!DOCTYPE html><html><body>404 Not Found</body></html>')],
  ['an HTML or XML file', text('\r\n<HTML lang=de>Zugriff verweigert f\u00fcr\u0000')],
  ['an HTML or XML file', text('<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>')],
  ['JSON', text('{"message": "Not Found", "status": 404}\n')],
  ['JSON', text('[\n  {"id": 1}\n]')],
  ['a Git LFS pointer', text(`version https://git-lfs.github.com/spec/v1\noid sha256:${'a'.repeat(64)}\nsize 12345\n`)],
  ['a PEM file', text('-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n')],
  ['TI-TXT or Verilog hex', text('@0000\r\nFF CF 03 0A\r\nq\r\n')],
  ['Tektronix hex', text('%0E6111111111\r\n')],
  ['Tektronix hex', text('/000020020C943F000C945400\r\n')],
  ['a text', text('\u0002 $A0000,\r\nFF CF 03 0A \r\n\u0003')],
  ['MOS Technology hex', text(';0A0000FFCF030A11181F26270205\r\n;0000010001\r\n')],
  ['a hex dump', text('00000000: ffcf 030a 1118 1f26  .......&\n')],
  ['a hex dump', text(`${Buffer.from(program).toString('hex')}\n`)],
  ['base64', text(Buffer.from(program).toString('base64'))],
  ['a text', text('int main(void) { return 0; }\n')],
  ['a text', Buffer.from('\u{feff}Error: no such file\n', 'utf16le')],
  ['a text', utf16be('Error: no such file\n')],
  ['a text', Buffer.from('Datei nicht gefunden: Gerät\n')],
  ['a text', text('Datei nicht gefunden: Ger\u00e4t\n')],
  ['a text', text('Le fichier demand\u00e9 est introuvable sur ce serveur.\r\n'.repeat(90))],
];

function refusalOf(file: Uint8Array, isRaw: boolean): { code: string; message: string } {
  try {
    readImage(file, { address: 0, isRaw });
  } catch (error) {
    if (error instanceof McuError) return error;
    throw error;
  }
  return { code: 'accepted', message: '' };
}

describe('a file that is not an image', () => {
  test.each(foreign)('is refused as %s, also if it is stated to be raw', (kind, file) => {
    for (const isRaw of [false, true]) {
      const { code, message } = refusalOf(file, isRaw);
      expect([code, message]).toEqual(['image-unknown', expect.stringContaining(`the file is ${kind}`)]);
    }
  });

  test('is refused without that statement if it is binary, showing how it begins', () => {
    expect(refusalOf(program, false)).toMatchObject({
      code: 'image-unknown',
      message: 'the file is in no known format: it begins with ffcf11181f262d34',
    });
    expect(codeOf(() => readImage(program, { address: 0, isRaw: true }))).toBe('accepted');
  });

  test.each([
    ['an AVR program of texts', Buffer.concat([Buffer.from('0c9434000c943e00', 'hex'), text('!'.repeat(500))])],
    ['a Cortex-M program', Buffer.from('0050002091010008', 'hex')],
    ['a program behind a blank page', Buffer.concat([new Uint8Array(128).fill(0xff), text('PK\u0003\u0004')])],
    ['a program of one instruction', Uint8Array.of(0xff, 0xcf)],
    ['a Cortex-M program whose stack ends like the header of zlib', Buffer.from('789c002091010008', 'hex')],
  ])('is not seen in %s', (_, file) => {
    expect(codeOf(() => readImage(file, { address: 0, isRaw: true }))).toBe('accepted');
  });
});

/** The first words of programs: vectors of a Cortex-M and of AVR chips, and an ESP image. */
const firstWords = fc.oneof(
  fc
    .tuple(fc.integer({ min: 0x400, max: 0x2_0000 }), fc.integer({ min: 0x20, max: 0x8_0000 }))
    .map(([stack, reset]) => Uint32Array.of(0x2000_0000 + stack * 4, 0x0800_0001 + reset * 2)),
  fc.integer({ min: 26, max: 0x3fff }).map((target) => Uint16Array.of(0x940c, target, 0x940c, 64)),
  fc.integer({ min: 0, max: 0x7ff }).map((target) => Uint16Array.of(0xc000 + target, 0xc018)),
  fc.constant(Uint8Array.of()),
);

test('takes no program for another file, whatever bytes it has', () => {
  const programs = fc.tuple(firstWords, fc.uint8Array({ minLength: 64, maxLength: 6_000 }));
  fc.assert(
    fc.property(programs, ([{ buffer }, rest]) => {
      expect(foreignKind(Buffer.concat([new Uint8Array(buffer), rest]))).toBeUndefined();
    }),
  );
});

test('needs more than a header to see a zlib stream', () => {
  const rest = fc.uint8Array({ minLength: 64, maxLength: 5_000 });
  fc.assert(
    fc.property(fc.constantFrom(0x01, 0x5e, 0x9c, 0xda), rest, (level, bytes) => {
      expect(foreignKind(Buffer.concat([Uint8Array.of(0x78, level), bytes]))).toBeUndefined();
    }),
  );
});

describe('Intel HEX is read as toolchains and people write it:', () => {
  const lines = hex.split('\n').filter((line) => line !== '');
  const right = readImage(text(hex)).digest;

  test.each([
    ['with a byte order mark', text(`\u00ef\u00bb\u00bf${hex}`)],
    ['in UTF-16, as PowerShell writes it', Buffer.from(`\u{feff}${hex}`, 'utf16le')],
    ['in UTF-16 with the other order of bytes', utf16be(hex)],
    ['in UTF-16 that ends within a character', Buffer.concat([utf16be(hex), Uint8Array.of(0)])],
    ['with CRLF', text(lines.join('\r\n'))],
    ['with CR alone', text(lines.join('\r'))],
    ['with Ctrl-Z at its end', text(`${lines.join('\r\n')}\r\n\u001a`)],
    ['padded with NULs', text(`${lines.join('\n')}\n${'\0'.repeat(100)}`)],
    ['in lower case', text(hex.toLowerCase())],
    ['with blank lines', text(`\r\n\n${lines.join('\n\n')}\n\n`)],
    ['with spaces behind the records', text(lines.join('  \t\n'))],
    ['with comments before and behind it (CCS C)', text(`;PIC18F4550\n${hex};CRC=1234\n;CREATED="04-Mar-19"\n`)],
    ['with comments behind the records (avrdude, format I)', text(lines.join(' // 00000> .O;:.\n'))],
  ])('%s', (_, file) => {
    expect(readImage(file)).toMatchObject({ format: 'intel-hex', digest: right });
  });

  test.each([
    ['image-malformed', 'a line that is not a record', text(`:00000001FF\n${hex}`)],
    ['image-malformed', 'an end record with data', text(':0100000101FD\n')],
    ['image-malformed', 'a record whose colon was damaged to a semicolon', text(hex.replace('\n:', '\n;'))],
    ['image-malformed', 'a space inside a record', text(hex.replace(':10', ':10 '))],
    ['image-unknown', 'another header first', text(`$V2.1 header\n${hex}`)],
    ['image-unknown', 'nothing but comments', text(';PIC18F4550\n// nothing\n')],
  ])('%s: %s', (code, _, file) => {
    expect(codeOf(() => readImage(file, { address: 0 }))).toBe(code);
  });
});
