import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { encodeHead } from '../../../../src/helper/link/frame.ts';
import { Link } from '../../../../src/helper/link/link.ts';
import type { LinkDeps } from '../../../../src/helper/link/link.ts';
import { UpdateError } from '../../../../src/update/errors.ts';

const never = new AbortController().signal;

let stack: AsyncDisposableStack;
let near: Socket;
let far: Socket;

/** Two ends of a real Unix socket. */
beforeEach(async () => {
  stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'link-'));
  stack.defer(async () => rm(folder, { recursive: true }));
  const server = createServer().listen({ path: join(folder, 's') });
  await once(server, 'listening');
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  near = connect({ path: join(folder, 's') });
  [far] = await accepted;
  server.close();
  stack.defer(() => {
    near.destroy();
    far.destroy();
  });
});
afterEach(async () => {
  await stack.disposeAsync();
});

const gone = new Error('the other side is gone');

function linkOn(socket: Socket, serve: LinkDeps['serve'] = async () => ({ output: {} })): Link {
  const link = new Link(socket, { serve, onNote: () => {}, lost: () => gone });
  stack.defer(() => link.close());
  return link;
}

describe('a link', () => {
  test('takes calls in both directions at once, each with its answer, its bytes, or its error', async () => {
    const one = linkOn(near, async ({ verb }) => ({ output: `near ${verb}`, body: Buffer.from('bytes') }));
    const other = linkOn(far, async ({ verb, input }) => {
      if (verb === 'refuse') throw new UpdateError('not-now', 'later');
      const { output, body } = await other.call('back', {}, {}, never);
      return { output: [input, output, body?.toString()] };
    });
    const answers = Array.from({ length: 10 }, async (_, n) => one.call('ask', n, {}, never));
    expect((await Promise.all(answers)).map(({ output }) => output)).toEqual(
      Array.from({ length: 10 }, (_, n) => [n, 'near back', 'bytes']),
    );
    // the class by which the update room knows it
    await expect(one.call('refuse', {}, {}, never)).rejects.toBeInstanceOf(UpdateError);
  });

  test('tells the other side what is called off, and throws the reason once that has ended it', async () => {
    const reason = new Error('not wanted');
    const ending = new AbortController();
    const ended: unknown[] = [];
    const one = linkOn(near);
    linkOn(far, async ({ signal }) => {
      ending.abort(reason);
      await once(signal, 'abort');
      ended.push(signal.reason);
      throw signal.reason;
    });
    const call = one.call('work', {}, { patienceMs: 60_000 }, ending.signal);
    await expect(call).rejects.toBe(reason);
    expect(ended).toHaveLength(1);
  });

  test('gives up an answer that does not come in time', async () => {
    const one = linkOn(near);
    linkOn(far, async ({ signal }) => {
      await once(signal, 'abort');
      throw signal.reason;
    });
    await expect(one.call('work', {}, { deadlineMs: 1 }, never)).rejects.toMatchObject({ code: 'helper-lost' });
  });

  test('ends all that is under way, on both sides, when the other side is gone', async () => {
    const begun = Promise.withResolvers<void>();
    const served: unknown[] = [];
    const one = linkOn(near);
    const other = linkOn(far, async ({ signal }) => {
      begun.resolve();
      await once(signal, 'abort');
      served.push(signal.reason);
      throw signal.reason;
    });
    const call = one.call('work', {}, {}, never);
    await begun.promise;
    near.destroy();
    await expect(call).rejects.toBe(gone);
    await other.ended();
    expect(served).toEqual([gone]);
    await expect(other.call('more', {}, {}, never)).rejects.toBe(gone);
  });

  test.each([
    ['a word of no known form', { kind: 'order', id: 1 }],
    ['one member too many', { kind: 'cancel', id: 1, force: true }],
    ['an answer to nothing', { kind: 'result', id: 7, output: {} }],
    ['a number that is none', { kind: 'call', id: -1, verb: 'x', input: {} }],
    ['a word that is too long', { kind: 'call', id: 1, verb: 'x'.repeat(65), input: {} }],
    ['an error of another form', { kind: 'error', id: 1, error: { code: '../x' } }],
  ])('is closed by %s', async (_what, head) => {
    const link = linkOn(near);
    far.write(encodeHead(head));
    await link.hungUp;
    expect(link.broken).toMatchObject({ code: 'link-malformed' });
  });

  test('is closed by too many calls at once', async () => {
    const stuck = Promise.withResolvers<never>();
    const link = linkOn(near, async () => stuck.promise);
    for (let id = 1; id <= 16; id += 1) far.write(encodeHead({ kind: 'call', id, verb: 'x', input: {} }));
    far.write(encodeHead({ kind: 'call', id: 17, verb: 'x', input: {} }));
    await link.hungUp;
    expect(link.broken?.message).toBe('too much at once came out of turn');
  });
});
