import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { RemoteEngine } from '../../../../src/helper/agent/remote-engine.ts';
import { ownFs } from '../../../../src/system/files/durable-file.ts';
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

  test('takes the connection and is silent shows so soon, once for all that is shown, and until it answers', async () => {
    const taken = Promise.withResolvers<Socket>();
    const server = createServer((socket) => taken.resolve(socket));
    stack.defer(() => {
      server.close();
    });
    server.listen({ path });
    await once(server, 'listening');
    const clock = { ...systemClock, sleep: async () => {} };
    const deps = { path, clock, log: silentLog, onSecurity: () => {}, onJournal: () => {} };
    const looking = stack.use(new RemoteEngine({ ...deps, glanceMs: 50, onlyLooks: true }));
    await looking.journal.refresh();
    expect(looking.journal.trouble).toMatchObject({ code: 'helper-silent' });
    const signal = new AbortController().signal;
    const asked = looking.bootloader.bootedSlot(signal);
    await expect(asked).rejects.toMatchObject({
      code: 'helper-silent',
      advice: expect.stringMatching(/systemctl restart thing-helper/) as string,
    });
    await expect(looking.readTrust('trust.json', ownFs)).rejects.toMatchObject({ code: 'helper-silent' });
    await expect(looking.examine(AbortSignal.timeout(10_000))).rejects.toMatchObject({ code: 'helper-silent' });
    const socket = await taken.promise;
    const hungUp = once(socket.resume(), 'close');
    looking[Symbol.dispose]();
    await hungUp; // nothing keeps a command waiting for an answer that nobody wants
    // seen: "there was no answer to attach in time"
    const working = stack.use(new RemoteEngine({ ...deps, attachMs: 50 }));
    await expect(working.journal.probe()).rejects.toMatchObject({ code: 'helper-silent' });
  });
});
