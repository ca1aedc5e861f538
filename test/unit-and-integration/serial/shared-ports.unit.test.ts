import { expect, test } from 'vitest';

import { SerialError } from '../../../src/serial/errors.ts';
import type { Line } from '../../../src/serial/line.ts';
import { SharedPorts } from '../../../src/serial/shared-ports.ts';
import { ManualClock } from '../../fakes/clock.ts';

const forever = new AbortController().signal;
const settings = { baud: 9_600, parity: 'none' } as const;
const meter = '/nowhere/meter';

class Rig {
  readonly clock = new ManualClock();
  readonly opened: string[] = [];
  isBusy = false;
  readonly ports = new SharedPorts({
    clock: this.clock,
    isBusy: () => this.isBusy,
    open: async (path) => this.#open(path),
  });
  #isHeld = new Set<string>();

  /** Number of attempts that find a free port busy. */
  busyFor = 0;

  /** As the driver does it: one at a time. */
  #open(path: string): Line {
    if (this.#isHeld.has(path) || this.busyFor-- > 0) throw new SerialError('port-busy', `${path} is open`);
    this.#isHeld.add(path);
    this.opened.push(path);
    return {
      name: path,
      baud: settings.baud,
      bitsPerCharacter: 10,
      write: async () => {},
      read: async (_timeoutMs, signal) => {
        signal.throwIfAborted();
        const ended = Promise.withResolvers<never>();
        signal.addEventListener('abort', () => ended.reject(signal.reason as Error));
        return ended.promise;
      },
      setModem: async () => true,
      setBaud: async () => {},
      [Symbol.asyncDispose]: async () => void this.#isHeld.delete(path),
    };
  }

  /** Listens there; resolves to what tells why the line was taken away. */
  async listen(path: string): Promise<{ readonly end: Promise<unknown> }> {
    const line = await this.ports.openForSource(path, settings, forever);
    const end = line.read(1_000, forever).catch(async (error: unknown) => {
      await line[Symbol.asyncDispose]();
      return error;
    });
    return { end };
  }
}

test('a board takes its port from the source that listens there, and no other', async () => {
  const rig = new Rig();
  const [here] = [await rig.listen(meter), await rig.listen('/nowhere/other')];
  rig.clock.sleep = async () => Promise.withResolvers<void>().promise;
  await using _line = await rig.ports.openForBoard(meter, settings, forever);
  expect(await here.end).toMatchObject({ code: 'port-busy', remedy: 'retry' });
  expect(rig.opened).toEqual([meter, '/nowhere/other', meter]);
});

test('a driver may take a while to close what a source has given back', async () => {
  const rig = new Rig();
  const { end } = await rig.listen(meter);
  rig.busyFor = 3;
  await using _line = await rig.ports.openForBoard(meter, settings, forever);
  await end;
  expect(rig.opened).toEqual([meter, meter]);
});

test('a source that does not let go keeps a board waiting for a while only', async () => {
  const rig = new Rig();
  await using _line = await rig.ports.openForSource(meter, settings, forever);
  await expect(rig.ports.openForBoard(meter, settings, forever)).rejects.toThrow('is open');
  expect(rig.clock.slept.reduce((sum, ms) => sum + ms)).toBe(20_000);
});

test('a source waits until the operation has ended, though the board’s line is closed in between', async () => {
  const rig = new Rig();
  rig.isBusy = true;
  await (await rig.ports.openForBoard(meter, settings, forever))[Symbol.asyncDispose]();
  rig.clock.sleep = async (ms) => {
    rig.clock.slept.push(ms);
    if (rig.clock.slept.length === 3) rig.isBusy = false;
  };
  await using _line = await rig.ports.openForSource(meter, settings, forever);
  expect(rig.clock.slept).toHaveLength(3);
});

test('a port whose board could not be reached is free again', async () => {
  const rig = new Rig();
  await using held = await rig.ports.openForBoard(meter, settings, forever);
  await expect(rig.ports.openForBoard(meter, settings, forever)).rejects.toThrow('is open');
  await held[Symbol.asyncDispose]();
  await using _line = await rig.ports.openForSource(meter, settings, forever);
  expect(rig.clock.slept).toEqual([]);
});

// Regression: the error blamed another program, or none.
test('names the source of the agent that has the port', async () => {
  const rig = new Rig();
  await using _line = await rig.ports.openForSource(meter, settings, forever);
  await expect(rig.ports.openForSource(meter, settings, forever)).rejects.toMatchObject({
    code: 'port-busy',
    message: `cannot open ${meter}: a source of this agent reads it as ${meter}`,
  });
});
