import { describe, expect, test } from 'vitest';

import type { Hasher } from '../../../src/slots/hasher.ts';
import { WorkerHasher } from '../../../src/slots/hasher.ts';
import { LazyHasher } from './lazy-hasher.ts';
import { digestOf, noise } from './writer-bench.ts';

function shared(bytes: Buffer): Buffer {
  const copy = Buffer.from(new SharedArrayBuffer(bytes.byteLength, { maxByteLength: bytes.byteLength }));
  bytes.copy(copy);
  return copy;
}

describe.each<[string, () => Hasher]>([
  ['a thread of its own', () => new WorkerHasher('slot B')],
  ['the same thread, later', () => new LazyHasher()],
])('hashing in %s', (_, start) => {
  test('the digest is of all pieces in the order they were given, and more may follow', async () => {
    await using hasher = start();
    expect(await hasher.digest()).toBe(digestOf(Buffer.alloc(0)));
    const pieces = [noise(1, 1), noise(100_000, 2), noise(0), noise(4096, 3)];
    await Promise.all(pieces.map(async (piece) => hasher.update(shared(piece))));
    expect(await hasher.digest()).toBe(digestOf(Buffer.concat(pieces)));
    await hasher.update(shared(noise(7)));
    expect(await hasher.digest()).toBe(digestOf(Buffer.concat([...pieces, noise(7)])));
  });
});

test('a thread that has ended fails those who wait for it, and those who come later', async () => {
  const hasher = new WorkerHasher('slot B');
  const waiting = hasher.digest();
  await Promise.all([
    expect(waiting).rejects.toMatchObject({ code: 'hash-worker-failed', remedy: 'retry', exit: 'disk' }),
    hasher[Symbol.asyncDispose](),
  ]);
  await expect(hasher.update(shared(noise(1)))).rejects.toMatchObject({ code: 'hash-worker-failed' });
});
