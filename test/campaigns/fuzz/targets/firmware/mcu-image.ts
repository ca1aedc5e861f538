import { generateKeyPairSync } from 'node:crypto';
import { deflateRawSync, gzipSync } from 'node:zlib';

import fc from 'fast-check';

import type { Image } from '../../../../../src/mcu/images/image.ts';
import { readImage } from '../../../../../src/mcu/images/read-image.ts';
import { espApplication, espImage } from '../../../../fakes/boards/models/esp-image.ts';
import {
  elfFile,
  intelHex,
  layouts,
  mcubootFile,
  sRecords,
  text,
  uf2File,
} from '../../../../unit-and-integration/mcu/images/build.ts';
import { hostile } from '../../mutation.ts';
import { openTarget, outcomeOf } from '../../target.ts';
import type { FuzzTarget } from '../../target.ts';

const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });

const hexText = layouts.map((segments) => {
  const low = segments.filter(({ address, bytes }) => address + bytes.byteLength < 0x10000);
  return intelHex([{ address: 0, bytes: Uint8Array.of(1) }, ...low]);
});
const recordText = layouts.map(sRecords);

const image: fc.Arbitrary<Uint8Array> = fc.oneof(
  hexText.map(text),
  recordText.map(text),
  layouts.map((segments) => elfFile(segments, 83)),
  fc
    .tuple(
      layouts,
      fc.constantFrom(undefined, () => 484),
    )
    .map(([segments, md5At]) => uf2File(segments, 0x57755a57, md5At)),
  layouts.map((segments) => mcubootFile(Buffer.concat(segments.map(({ bytes }) => bytes)), privateKey)),
  fc.tuple(fc.uint8Array(), fc.constantFrom(0, 9, 'esp8266' as const)).map(([bytes, chip]) => espImage(bytes, chip)),
  fc.uint8Array().map((bytes) => espApplication(bytes)),
);

/** Files that pipelines, servers and users deliver instead of an image. */
const foreign: fc.Arbitrary<Uint8Array> = fc.oneof(
  image.map((bytes) => gzipSync(bytes)),
  image.map((bytes) => Buffer.concat([text('PK\u0003\u0004'), Buffer.alloc(26), deflateRawSync(bytes)])),
  image.map((bytes) => text(`${Buffer.from(bytes).toString('base64')}\n`)),
  image.map((bytes) => text(`${Buffer.from(bytes).toString('hex')}\n`)),
  fc.jsonValue().map((value) => Buffer.from(JSON.stringify({ error: value }))),
  fc.string({ unit: 'grapheme' }).map((body) => Buffer.from(`<!DOCTYPE html>\n<html>${body}`)),
  fc
    .stringMatching(/^[0-9a-f]{64}$/)
    .map((id) => text(`version https://git-lfs.github.com/spec/v1\noid sha256:${id}\n`)),
);

/** The same records as other tools write them. */
const dressings: readonly ((records: string) => Uint8Array)[] = [
  (records) => text(`\u00ef\u00bb\u00bf${records}`),
  (records) => Buffer.from(`\u{feff}${records}`, 'utf16le'),
  (records) => text(records.replaceAll(/\r?\n/g, '\r\n')),
  (records) => text(records.toLowerCase()),
  (records) => text(records.replaceAll('\n', '\n\n')),
  (records) => text(`; made by a tool\n${records};CRC=1234\n`),
  (records) => text(records.replaceAll(/\r?\n/g, ' // 00000> text\n')),
];

/** `same`: must be read like these records. `refused`: must not be taken for an image. */
type Expected = 'anything' | 'refused' | { readonly same: string };

const files: fc.Arbitrary<{ readonly file: Uint8Array; readonly expected: Expected }> = fc.oneof(
  { weight: 6, arbitrary: hostile(image).map((file) => ({ file, expected: 'anything' as const })) },
  { weight: 1, arbitrary: hostile(foreign).map((file) => ({ file, expected: 'anything' as const })) },
  { weight: 2, arbitrary: foreign.map((file) => ({ file, expected: 'refused' as const })) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(fc.oneof(hexText, recordText), fc.constantFrom(...dressings))
      .map(([same, dress]) => ({ file: dress(same), expected: { same } })),
  },
);

const cases = fc.record({
  of: files,
  address: fc.option(fc.nat({ max: 2 ** 32 }), { nil: undefined }),
  isSigned: fc.boolean(),
  isRaw: fc.boolean(),
});

/**
 * Images for microcontrollers: an image whose parts neither overlap nor exceed 32 bits, or an error. No other file is
 * accepted as an image, and only a file declared as raw is a raw binary.
 */
export const mcuImage: FuzzTarget = {
  name: 'mcu-image',
  open: async () =>
    openTarget(cases, async ({ of: { file, expected }, address, isSigned, isRaw }) => {
      const mcubootKey = isSigned ? publicKey : undefined;
      const outcome = await outcomeOf(() => readImage(file, { address, isRaw, mcubootKey }));
      if ('error' in outcome) {
        if (typeof expected === 'object' && !isSigned) throw outcome.error;
        return;
      }
      requireExpected(outcome.value, expected);
      const { format, segments } = outcome.value;
      if (format === 'raw' && !isRaw) throw new Error('it is taken for a raw binary, and nobody called it one');
      let end = -1;
      for (const { address: start, bytes } of segments) {
        if (start <= end) throw new Error(`a segment begins at ${start}, the one before ends at ${end}`);
        end = start + bytes.byteLength;
      }
      if (end > 2 ** 32) throw new Error(`the image reaches ${end}`);
    }),
};

function requireExpected({ format, digest }: Image, expected: Expected): void {
  if (expected === 'refused') throw new Error(`it is taken for ${format}`);
  if (typeof expected === 'object' && readImage(text(expected.same)).digest !== digest) {
    throw new Error('it is read as something else than its records');
  }
}
