import { describe, expect, test } from 'vitest';

import type { Board } from '../../../src/mcu/connection.ts';
import { flash } from '../../../src/mcu/flash/flash.ts';
import { readImage } from '../../../src/mcu/images/read-image.ts';
import { stk500v1 } from '../../../src/mcu/protocols/stk500v1.ts';
import { stm32 } from '../../../src/mcu/protocols/stm32/stm32.ts';
import { enterBootloader, leaveBootloader } from '../../../src/mcu/reset.ts';
import type { Reset } from '../../../src/mcu/reset.ts';
import type { OpenLine } from '../../../src/serial/line.ts';
import { silentLog } from '../../../src/system/log/log.ts';
import { OptibootModel } from '../../fakes/boards/models/avr-model.ts';
import { VirtualPort } from '../../fakes/boards/models/virtual-line.ts';
import { program } from './protocols/fault-matrix.ts';

const signal = new AbortController().signal;
const programs = { old: program(512, 1), new: program(512, 2) };

/** Returns a reset's changes of the lines, as `dtr rts` or a baud rate, and its requirements. */
async function danceOf(reset: Reset, protocol = stk500v1()): Promise<{ steps: string[]; effect: string }> {
  const port = new VirtualPort(new OptibootModel({ programs, pageBytes: 128 }));
  const steps: string[] = [];
  await using line = await port.open({ baud: 115_200, parity: 'none' });
  line.setModem = async ({ dtr, rts }) => steps.push(`${dtr ? 1 : 0} ${rts ? 1 : 0}`) > 0;
  line.setBaud = async (baud) => void steps.push(`${baud}`);
  const effect = await enterBootloader(line, { reset, protocol, clock: port.clock }, signal);
  await leaveBootloader(line, { reset, protocol, clock: port.clock }, signal);
  return { steps, effect };
}

describe('a reset', () => {
  test.each([
    ['dtr', stk500v1(), ['0 1', '1 1']],
    ['dtr-rts', stk500v1(), ['0 0', '1 1']],
    // NRST low, then high, with BOOT0 high; afterwards both again with BOOT0 low.
    ['dtr-rts', stm32(), ['1 0', '0 0', '1 1', '0 1']],
    ['none', stk500v1(), []],
  ] as const)('by %s moves the lines as the boards of its protocol want it (%#)', async (reset, protocol, steps) => {
    expect(await danceOf(reset, protocol)).toEqual({ steps, effect: 'done' });
  });

  test('by a touch at 1200 bits per second requires reopening the port', async () => {
    expect(await danceOf('1200bps')).toEqual({ steps: ['1200', '0 1'], effect: 'reopen' });
  });

  test('by a command runs it, and reports its failure', async () => {
    expect(await danceOf({ command: ['true'] })).toEqual({ steps: [], effect: 'done' });
    await expect(danceOf({ command: ['false'] })).rejects.toMatchObject({ code: 'board-unsupported' });
  });
});

test('a board whose port goes away at the touch is flashed when it is back', async () => {
  const model = new OptibootModel({ programs, pageBytes: 128 });
  const port = new VirtualPort(model);
  let opened = 0;
  const openLine: OpenLine = async (settings) => {
    opened += 1;
    const line = await port.open(settings);
    if (opened === 1) {
      line[Symbol.asyncDispose] = async () => {
        port.inject({ kind: 'unplug', direction: 'to-board', at: 1 });
        port.send(Uint8Array.of(0));
        port.inject();
        model.reset(port.clock.monotonicMs() + 3_000);
      };
    }
    return line;
  };
  const board: Board = {
    name: 'board',
    protocol: stk500v1(),
    baud: 115_200,
    reset: '1200bps',
    openLine,
    clock: port.clock,
    log: silentLog,
  };
  await flash({ image: readImage(programs.new, { address: 0, isRaw: true }) }, board, signal);
  expect(model.ran).toEqual(['new']);
});
