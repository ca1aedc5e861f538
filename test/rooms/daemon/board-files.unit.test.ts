import { expect, test } from 'vitest';

import { readImageSource } from '../../../src/daemon/board-files.ts';
import type { FirmwareSource } from '../../../src/update/ports.ts';

const signal = new AbortController().signal;

/** As an agent hands it over that somebody has broken into. */
function inPieces(count: number, piece: Uint8Array): FirmwareSource {
  return {
    form: 'decoded',
    open: async () => ({
      startOffset: 0,
      totalBytes: undefined,
      validator: undefined,
      chunks: (async function* chunks() {
        for (let index = 0; index < count; index += 1) yield piece;
      })(),
      [Symbol.asyncDispose]: async () => {},
    }),
  };
}

test('an image for a board is read whole', async () => {
  expect(await readImageSource(inPieces(65_536, Buffer.from('x')), 'meter.hex', signal)).toHaveLength(65_536);
});

test.each([
  ['more bytes', 1_025, Buffer.alloc(65_536), 'it is longer than 67108864 bytes'],
  ['more pieces', 65_537, Buffer.from('x'), 'it came in more than 65536 pieces'],
])('one of %s than any image has is refused', async (_, count, piece, why) => {
  await expect(readImageSource(inPieces(count, piece), 'meter.hex', signal)).rejects.toMatchObject({
    code: 'file-unreadable',
    message: `meter.hex cannot be read: ${why}`,
  });
});
