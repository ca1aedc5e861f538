import { generateKeyPairSync } from 'node:crypto';

import fc from 'fast-check';

import { readImage } from '../../../../../src/mcu/images/read-image.ts';
import {
  elfFile,
  intelHex,
  layouts,
  mcubootFile,
  sRecords,
  text,
  uf2File,
} from '../../../../rooms/mcu/images/build.ts';
import { hostile } from '../../mutation.ts';
import { openTarget, outcomeOf } from '../../target.ts';
import type { FuzzTarget } from '../../target.ts';

const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });

const file: fc.Arbitrary<Uint8Array> = fc.tuple(layouts, fc.nat({ max: 4 })).map(([segments, format]) => {
  const low = segments.filter(({ address, bytes }) => address + bytes.byteLength < 0x10000);
  const body = Buffer.concat(segments.map(({ bytes }) => bytes));
  const made = [
    () => text(intelHex(low)),
    () => text(sRecords(segments)),
    () => elfFile(segments, 83),
    () => uf2File(segments, 0x57755a57),
    () => mcubootFile(body, privateKey),
  ];
  return made[format]?.() ?? new Uint8Array();
});

const cases = fc.record({
  file: hostile(file),
  address: fc.option(fc.nat({ max: 2 ** 32 }), { nil: undefined }),
  isSigned: fc.boolean(),
});

/** Images for microcontrollers: an image whose parts neither overlap nor leave 32 bits, or an error. */
export const mcuImage: FuzzTarget = {
  name: 'mcu-image',
  open: async () =>
    openTarget(cases, async ({ file, address, isSigned }) => {
      const mcubootKey = isSigned ? publicKey : undefined;
      const outcome = await outcomeOf(() => readImage(file, { address, mcubootKey }));
      if ('error' in outcome) return;
      let end = -1;
      for (const { address: start, bytes } of outcome.value.segments) {
        if (start <= end) throw new Error(`a segment begins at ${start}, the one before ends at ${end}`);
        end = start + bytes.byteLength;
      }
      if (end > 2 ** 32) throw new Error(`the image reaches ${end}`);
    }),
};
