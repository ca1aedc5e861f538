import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { RemoteEngine } from '../../../../src/helper/agent/remote-engine.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { systemClock } from '../../../../src/system/time/clock.ts';

let stack: AsyncDisposableStack;
let path: string;
let engine: RemoteEngine;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'remote-engine-'));
  stack.defer(async () => rm(folder, { recursive: true }));
  path = join(folder, 'helper.sock');
  const clock = { ...systemClock, sleep: async () => {} };
  engine = stack.use(new RemoteEngine({ path, clock, log: silentLog, onSecurity: () => {}, onJournal: () => {} }));
});
afterEach(async () => {
  await stack.disposeAsync();
});

describe('an agent whose helper', () => {
  test('is not there goes on without it, and says so', async () => {
    await engine.journal.refresh();
    expect(engine.journal).toMatchObject({
      state: { phase: { kind: 'lost' } },
      trouble: { code: 'helper-unreachable' },
    });
    await expect(engine.journal.probe()).rejects.toMatchObject({ code: 'helper-unreachable' });
  });

  test('hangs up at once, or says what is no word, goes on without it, too', async () => {
    const words: Buffer[] = [];
    const server = createServer((socket) => {
      socket.on('error', () => socket.destroy());
      for (const word of words) socket.write(word);
      socket.end();
    });
    stack.defer(() => {
      server.close();
    });
    server.listen({ path });
    await once(server, 'listening');
    await engine.journal.refresh();
    expect(engine.journal.trouble).toMatchObject({ code: 'helper-lost' });
    words.push(Buffer.alloc(16));
    await engine.journal.refresh();
    expect(engine.journal.trouble).toMatchObject({ code: 'helper-lost' });
  });
});
