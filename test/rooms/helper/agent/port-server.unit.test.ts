import { setImmediate as nextTurn } from 'node:timers/promises';

import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { PortServer } from '../../../../src/helper/agent/port-server.ts';
import type { AgentPorts } from '../../../../src/helper/agent/port-server.ts';
import { Tray } from '../../../../src/helper/link/tray.ts';
import { packImage } from '../../../../src/mcu/apart/packed-image.ts';
import type { Board } from '../../../../src/mcu/connection.ts';
import { readImage } from '../../../../src/mcu/images/read-image.ts';
import { stk500v1 } from '../../../../src/mcu/protocols/stk500v1.ts';
import { OptibootModel } from '../../../stand-ins/boards/models/avr-model.ts';
import { program, rigOf } from '../../mcu/protocols/fault-matrix.ts';

const signal = new AbortController().signal;
const noTray = new Tray('/none');
const size = 8 * 128;
const image = packImage(readImage(program(size, 2), { address: 0 }));

/** A meter, and how many programs have its line open. */
function plugged(): { readonly board: Board; readonly opened: () => number } {
  const { board } = rigOf({
    protocol: () => stk500v1({ bootloaderBytes: 0x8000 - size }),
    model: (programs) => new OptibootModel({ programs, pageBytes: 128 }),
    programs: { old: program(size, 1), new: program(size, 2) },
    start: 0,
    baud: 115_200,
    mayBlankStart: true,
    obeysNoise: true,
  });
  let opened = 0;
  const openLine: Board['openLine'] = async (...settings) => {
    const line = await board.openLine(...settings);
    opened += 1;
    return Object.assign(line, { [Symbol.asyncDispose]: async () => void (opened -= 1) });
  };
  return { board: { ...board, openLine }, opened: () => opened };
}

describe('an order that has ended', () => {
  test('leaves the line of each board that was being flashed for it', async () => {
    const { board, opened } = plugged();
    {
      await using server = new PortServer({ board: () => board } as unknown as AgentPorts, noTray);
      const ask = async (verb: string, input: object, body?: Buffer): Promise<unknown> =>
        (await server.serve({ id: 1, within: 1, verb, input, body, signal })).output;
      expect(await ask('openBoard', { board: 'meter', image: image.about, keeps: false })).toEqual({ job: 1 });
      await ask('feedBoard', { job: 1 }, image.bytes);
      const next = async (): Promise<string> => ((await ask('stepBoard', { job: 1 })) as { kind: string }).kind;
      await expect.poll(next, { interval: 0 }).toBe('writing');
      expect(opened()).toBe(1);
      await expect(ask('stepBoard', { job: 2 })).rejects.toMatchObject({ code: 'link-malformed' });
    }
    expect(opened()).toBe(0);
  });
});

describe('a firmware on its way to the helper', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
  afterEach(() => void vi.useRealTimers());

  /** Gives the pieces one by one, in turns of the event loop that are not the same, and then what `last` gives. */
  async function reading(pieces: readonly string[], last: () => Promise<void>): Promise<() => Promise<string>> {
    async function* chunks(): AsyncGenerator<Uint8Array> {
      const room = Buffer.alloc(16);
      for (const piece of pieces) {
        for (let turn = 0; turn < 3; turn += 1) await nextTurn();
        yield room.subarray(0, room.write(piece)); // valid until the next one
      }
      room.fill('-');
      await last();
    }
    const transfer = { startOffset: 0, chunks: chunks(), [Symbol.asyncDispose]: async () => {} };
    const service = { firmware: () => ({ form: 'json-string', open: async () => transfer }) };
    const server = new PortServer({ service } as unknown as AgentPorts, noTray);
    const ask = async (verb: string, input: object): ReturnType<PortServer['serve']> =>
      server.serve({ id: 1, within: 1, verb, input, body: undefined, signal });
    await ask('openFirmware', { versionId: 'v2' });
    return async () => {
      const { body, onSent } = await ask('readFirmware', { transfer: 1 });
      const text = Buffer.from(body ?? []).toString();
      onSent?.();
      return text;
    };
  }

  test('goes in few answers, though it arrives in many pieces', async () => {
    const read = await reading(['one ', 'two ', 'three'], async () => {});
    expect(await read()).toBe('one two three');
    expect(await read()).toBe('');
  });

  test('does not wait for what comes late', async () => {
    const late = Promise.withResolvers<void>();
    const read = await reading(['one ', 'two'], async () => {
      vi.advanceTimersByTime(1_000);
      await late.promise;
    });
    expect(await read()).toBe('one two');
    late.resolve();
    expect(await read()).toBe('');
  });
});
