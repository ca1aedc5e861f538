import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';

import { expect, test } from 'vitest';

import { SentFile } from '../../../src/control/server/sent-file.ts';

const signal = new AbortController().signal;

// Regression: each piece copied the list of all pieces before it, so that 240 KB in single bytes took minutes.
test('keeps the start of a file in one piece, however small the pieces were that a client sent', async () => {
  const pieces = Array.from({ length: 5_000 }, (_, index) => Buffer.of(index & 0xff));
  const request = Object.assign(Readable.from(pieces), { headers: {} }) as unknown as IncomingMessage;
  const file = new SentFile(request, { stalledMs: 60_000, slowFileMs: 60_000 });
  const first = await Array.fromAsync(file.read(signal));
  expect(first).toHaveLength(5_000);
  const again = await Array.fromAsync(file.read(signal));
  expect(again).toEqual([Buffer.concat(pieces)]);
});
