import { PassThrough, Writable } from 'node:stream';

import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { BlockSource } from '../../../src/firmware/block-source.ts';
import { pump } from '../../../src/firmware/pump.ts';
import type { Transformer } from '../../../src/firmware/pump.ts';
import { failureOf } from './staging.ts';

const never = new AbortController().signal;
const HOUR_MS = 3_600_000;

async function* once(): AsyncGenerator<Uint8Array, void, undefined> {
  yield Buffer.from('work');
}

/** Takes its input, or not even that, and gives nothing. */
function idleMachine(takesInput: boolean): Transformer & { stopped: number } {
  const output = new PassThrough();
  const input = new Writable({ write: (_chunk, _encoding, done) => (takesInput ? done() : undefined) });
  const machine = {
    name: 'idle',
    input,
    output,
    stopped: 0,
    stop: () => {
      machine.stopped += 1;
      input.destroy();
      output.destroy();
    },
  };
  return machine;
}

async function drain(bytes: AsyncIterable<Uint8Array>): Promise<number> {
  let count = 0;
  for await (const chunk of bytes) count += chunk.length;
  return count;
}

const asItIs = (error: unknown): unknown => error;

describe('a machine that does nothing for a long time', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  async function eventually(event: () => boolean): Promise<void> {
    while (!event()) {
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
    }
  }

  test.each([true, false])('is stopped and reports it (it accepts its input: %s)', async (takesInput) => {
    const machine = idleMachine(takesInput);
    const failure = failureOf(drain(pump(machine, new BlockSource(once()), asItIs, never)));
    await eventually(() => (takesInput ? machine.input.writableEnded : machine.input.writableLength > 0));
    vi.advanceTimersByTime(HOUR_MS);
    expect(await failure).toMatchObject({ code: 'decompression-stalled', remedy: 'retry' });
    expect(machine.stopped).toBeGreaterThan(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('is left alone as long as its source has nothing for it', async () => {
    const machine = idleMachine(true);
    const supply = Promise.withResolvers<void>();
    async function* slow(): AsyncGenerator<Uint8Array, void, undefined> {
      yield Buffer.alloc(256 * 1024);
      await supply.promise;
    }
    const draining = drain(pump(machine, new BlockSource(slow()), asItIs, never));
    await eventually(() => machine.input.writableLength === 0);
    vi.advanceTimersByTime(HOUR_MS);
    expect(machine.stopped).toBe(0);
    supply.resolve();
    await eventually(() => machine.input.writableEnded);
    (machine.output as PassThrough).end('done');
    expect(await draining).toBe(4);
  });

  test('stays idle as long as its output is unused', async () => {
    const machine = idleMachine(false);
    (machine.output as PassThrough).write('x');
    const output = pump(machine, new BlockSource(once()), asItIs, never);
    await output.next();
    vi.advanceTimersByTime(HOUR_MS);
    expect(machine.stopped).toBe(0);
    await output.return();
    expect(machine.stopped).toBeGreaterThan(0);
  });
});
