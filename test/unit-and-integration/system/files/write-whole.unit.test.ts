import { expect, test } from 'vitest';

import { writeWhole } from '../../../../src/system/files/durable-file.ts';

type File = Parameters<typeof writeWhole>[0];

function fileTaking(atMost: number, taken: Buffer): File {
  const write = async (bytes: Buffer, from: number, count: number, at: number) => {
    const bytesWritten = Math.min(count, atMost);
    bytes.copy(taken, at, from, from + bytesWritten);
    return { bytesWritten, buffer: bytes };
  };
  return { write: write as unknown as File['write'] };
}

test('what is written short is written on from there', async () => {
  const taken = Buffer.alloc(12);
  await writeWhole(fileTaking(3, taken), Buffer.from('0123456789'), 2, 'file');
  expect(taken.subarray(0, 2)).toEqual(Buffer.alloc(2));
  expect(taken.toString('latin1', 2)).toBe('0123456789');
});

test('a file that takes nothing is an error, and no loop', async () => {
  const nothing = fileTaking(0, Buffer.alloc(4));
  await expect(writeWhole(nothing, Buffer.from('text'), 7, 'file')).rejects.toMatchObject({
    code: 'state-unavailable',
    message: expect.stringContaining('takes no byte at 7') as unknown,
  });
});
