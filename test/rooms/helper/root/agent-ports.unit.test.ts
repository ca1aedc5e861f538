import { expect, test } from 'vitest';

import { remoteFirmware } from '../../../../src/helper/root/agent-ports.ts';
import type { AskAgent } from '../../../../src/helper/root/ask-agent.ts';

// Seen: what a firmware of 1 GiB had brought over the link waited for 77 garbage collections.
test('the memory of what came over the link is freed when the next piece is asked for', async () => {
  const pieces = ['one', 'two'].map((text) => Buffer.alloc(100_000, text));
  const ask = {
    answer: async () => ({ transfer: 1, startOffset: 0 }),
    tray: { open: async () => undefined },
    answerWithBytes: async () => ({ output: {}, body: pieces.shift() }),
    forgetfully: async () => {},
  } as unknown as AskAgent;
  await using transfer = await remoteFirmware(ask, 'json-string', 'v2').open(undefined, new AbortController().signal);
  const read: Uint8Array[] = [];
  for await (const chunk of transfer.chunks) {
    expect(chunk.byteLength).toBe(100_000);
    read.push(chunk);
  }
  expect(read.map(({ byteLength }) => byteLength)).toEqual([0, 0]);
});
