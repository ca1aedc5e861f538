import { describe, expect, test } from 'vitest';

import { flash, probe } from '../../../../src/mcu/flash/flash.ts';
import { makeImage } from '../../../../src/mcu/images/image.ts';
import { xmodem } from '../../../../src/mcu/protocols/xmodem.ts';
import { XmodemModel } from '../../../fakes/boards/models/xmodem-model.ts';
import type { XmodemOptions } from '../../../fakes/boards/models/xmodem-model.ts';
import { program, rigOf } from './fault-matrix.ts';

const signal = new AbortController().signal;
const programs = { old: program(2_048, 1), new: program(2_048, 2) };
const image = makeImage('raw', [{ address: 0, bytes: programs.new }]);

function bench(options: XmodemOptions) {
  const model = new XmodemModel(programs, options);
  const { board, port } = rigOf({
    protocol: () => xmodem(),
    model: () => model,
    programs,
    start: 0,
    baud: 115_200,
    mayBlankStart: true,
    obeysNoise: false,
  });
  return { model, board, port };
}

describe('a receiver that calls for a transfer is heard', () => {
  test.each<[string, XmodemOptions]>([
    ['at once', {}],
    ['behind a banner with the letter in it', { banner: '\r\n(C) COPYRIGHT 2015 STMicroelectronics\r\n' }],
    ['after a prompt that ends without a newline', { banner: 'Send the file in binary mode: ' }],
    ['behind a text that ends in the letter', { banner: 'MODE C' }],
    ['every 50 ms', { banner: 'Boot v1.2', callEveryMs: 50 }],
    ['every 400 ms', { callEveryMs: 400 }],
    ['every ten seconds', { callEveryMs: 10_000 }],
    ['every fourteen seconds, as rx of lrzsz', { callEveryMs: 14_000 }],
    ['on a new line', { banner: '\r\n' }],
  ])('%s', async (_, options) => {
    const { model, board } = bench(options);
    await flash({ image }, board, signal);
    expect(model.ran.at(-1)).toBe('new');
  });
});

describe('an application that prints the letter of a call', () => {
  test.each<[string, XmodemOptions]>([
    ['at the beginning of lines', { application: 'CO2=412 T=21.5\r\n', callEveryMs: 1_000 }],
    ['at the end of a text', { application: 'T=21.5 C', callEveryMs: 1_000 }],
    ['at the end of a unit', { application: '\r\n21.5 °C', callEveryMs: 1_000 }],
    ['at the end of a column', { application: '\n21.5\tC', callEveryMs: 1_000 }],
    ['as a whole word', { application: '21.5 C\r\n', callEveryMs: 200 }],
    ['in capitals', { application: '\r\nCCID ACC OK', callEveryMs: 4_000 }],
    ['alone on a line', { application: '\r\nC', callEveryMs: 1_000 }],
    ['alone on a line before', { application: 'C\r\n', callEveryMs: 1_000 }],
    ['three times', { application: 'CCC', callEveryMs: 1_000 }],
    ['behind a line end, three times', { application: '\nCCC', callEveryMs: 1_000 }],
    ['as one of its states', { application: ['A', 'C', 'C', 'B'], callEveryMs: 1_000 }],
    ['as one of its states, seldom', { application: ['A', 'C', 'C', 'B'], callEveryMs: 6_000 }],
  ])('%s gets no byte of a program', async (_, options) => {
    const { model, board, port } = bench(options);
    await expect(probe(board, signal)).rejects.toMatchObject({ code: 'board-timeout' });
    await expect(flash({ image }, board, signal)).rejects.toMatchObject({ code: 'board-timeout' });
    expect(model.received).toBe(0);
    const [operations, resets, longestMs] = [2, 5, 34_000];
    expect(port.clock.monotonicMs()).toBeLessThan(operations * resets * longestMs);
  });
});
