import { describe, expect, test } from 'vitest';

import { PortServer } from '../../../../src/helper/agent/port-server.ts';
import type { AgentPorts } from '../../../../src/helper/agent/port-server.ts';
import { packImage } from '../../../../src/mcu/apart/packed-image.ts';
import type { Board } from '../../../../src/mcu/connection.ts';
import { readImage } from '../../../../src/mcu/images/read-image.ts';
import { stk500v1 } from '../../../../src/mcu/protocols/stk500v1.ts';
import { OptibootModel } from '../../../stand-ins/boards/models/avr-model.ts';
import { program, rigOf } from '../../mcu/protocols/fault-matrix.ts';

const signal = new AbortController().signal;
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
      await using server = new PortServer({ board: () => board } as unknown as AgentPorts);
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
