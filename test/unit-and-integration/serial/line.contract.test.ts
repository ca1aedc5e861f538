import { afterEach, describe, expect, test } from 'vitest';

import { SerialError } from '../../../src/serial/errors.ts';
import type { OpenLine } from '../../../src/serial/line.ts';
import { openSerialLine } from '../../../src/serial/serial-line.ts';
import type { BoardModel } from '../../fakes/boards/models/board-model.ts';
import { VirtualPort } from '../../fakes/boards/models/virtual-line.ts';
import { EmulatedPort } from '../../fakes/boards/serial/emulated-port.ts';

const signal = new AbortController().signal;
const settings = { baud: 115_200, parity: 'none' } as const;

/** Answers every byte with its successor. */
const successor: BoardModel = {
  receive: (byte, atMs) => [{ bytes: Uint8Array.of((byte + 1) & 0xff), atMs }],
  reset: () => {},
  power: () => {},
  dieAtWrite: () => {},
  resetsWhenDtr: 'asserted',
  dead: false,
  memory: new Uint8Array(),
  ran: [],
  violations: [],
  overruns: 0,
};

interface Port {
  readonly open: OpenLine;
  readonly unplug: () => Promise<void>;
  readonly hasModemLines: boolean;
}

const started: AsyncDisposable[] = [];

afterEach(async () => {
  for (const port of started.splice(0)) await port[Symbol.asyncDispose]();
});

const ports: readonly (readonly [string, () => Promise<Port>])[] = [
  [
    'a serial port',
    async () => {
      const port = await EmulatedPort.start(successor);
      started.push(port);
      const open: OpenLine = async (lineSettings, lineSignal) => openSerialLine(port.port, lineSettings, lineSignal);
      return { open, unplug: async () => port[Symbol.asyncDispose](), hasModemLines: false };
    },
  ],
  [
    'a virtual port',
    async () => {
      const port = new VirtualPort(successor);
      const unplug = async (): Promise<void> => port.inject({ kind: 'unplug', direction: 'to-board', at: 1 });
      return { open: port.open, unplug, hasModemLines: true };
    },
  ],
];

describe.each(ports)('%s', (_, start) => {
  test('carries bytes both ways', async () => {
    const { open } = await start();
    await using line = await open(settings, signal);
    await line.write(Uint8Array.of(1, 2, 250), signal);
    const heard: number[] = [];
    while (heard.length < 3) heard.push(...(await line.read(5_000, signal)));
    expect(heard).toEqual([2, 3, 251]);
  });

  test('returns nothing at the deadline', async () => {
    const { open } = await start();
    await using line = await open(settings, signal);
    expect((await line.read(20, signal)).byteLength).toBe(0);
  });

  test('stops with the reason of the signal', async () => {
    const { open } = await start();
    await using line = await open(settings, signal);
    const reason = new Error('enough');
    await expect(line.read(60_000, AbortSignal.abort(reason))).rejects.toBe(reason);
    await expect(line.write(Uint8Array.of(1), AbortSignal.abort(reason))).rejects.toBe(reason);
  });

  test('reports whether it has modem lines, and the time of its characters', async () => {
    const { open, hasModemLines } = await start();
    await using line = await open(settings, signal);
    expect(await line.setModem({ dtr: true, rts: true }, signal)).toBe(hasModemLines);
    expect([line.baud, line.bitsPerCharacter]).toEqual([115_200, 10]);
    await line.setBaud(57_600, signal);
    expect(line.baud).toBe(57_600);
  });

  test('is a clear error once it was unplugged', async () => {
    const { open, unplug } = await start();
    await using line = await open(settings, signal);
    await unplug();
    const use = async (): Promise<void> => {
      for (let tries = 0; tries < 100; tries += 1) {
        await line.write(Uint8Array.of(1), signal);
        await line.read(20, signal);
      }
    };
    await expect(use()).rejects.toMatchObject({ code: 'port-disconnected' });
  });
});

describe('opening a serial port', () => {
  test('that does not exist is refused as port-missing', async () => {
    await expect(openSerialLine('/dev/serial/by-id/none', settings, signal)).rejects.toMatchObject({
      code: 'port-missing',
    });
  });

  test('that is open already is refused as port-busy', async () => {
    await using port = await EmulatedPort.start(successor);
    await using _line = await openSerialLine(port.port, settings, signal);
    const second = openSerialLine(port.port, settings, signal);
    await expect(second).rejects.toBeInstanceOf(SerialError);
    await expect(second).rejects.toMatchObject({ code: 'port-busy' });
  });
});
