import * as fc from 'fast-check';
import { expect, test } from 'vitest';

import { untilSameTwice } from '../../../../src/mcu/protocol.ts';
import type { Conversation, Reply, Turn } from '../../../../src/mcu/protocol.ts';
import { espFamilies } from '../../../../src/mcu/protocols/esp/esp-chips.ts';
import { ask, decodeFrame, encodeFrame, frameBreak } from '../../../../src/mcu/protocols/esp/esp-frames.ts';
import { EspWriter } from '../../../../src/mcu/protocols/esp/esp-writer.ts';

const silence: Reply = { bytes: new Uint8Array(), whole: false };
const [deflateBegin, deflateData, readRegister] = [0x10, 0x11, 0x0a];

function answer(command: number, status = 0, error = 0): Reply {
  return { bytes: encodeFrame(Uint8Array.of(1, command, 4, 0, 0, 0, 0, 0, status, error, 0, 0)), whole: true };
}

/** Runs a conversation with these replies. Returns its output and its result. */
function converse<T>(
  conversation: Conversation<T>,
  replies: readonly Reply[],
): { sent: Turn[]; result: T | undefined } {
  const sent: Turn[] = [];
  let step = conversation.next();
  for (const reply of replies) {
    if (step.done === true) break;
    sent.push(step.value);
    step = conversation.next(reply);
  }
  return { sent, result: step.done === true ? step.value : undefined };
}

test('what is framed comes out of its frame, and has no end of a frame within', () => {
  fc.assert(
    fc.property(fc.uint8Array(), (packet) => {
      const inner = encodeFrame(packet).subarray(1, -1);
      expect(inner.includes(0xc0)).toBe(false);
      expect(decodeFrame(inner)).toEqual(packet);
    }),
  );
});

test('an answer to something else is passed over, and so is noise before it', () => {
  const noise = { bytes: Buffer.concat([Buffer.from('boot:0x3\r\n'), answer(deflateData).bytes]), whole: true };
  const asked = ask({ command: readRegister, data: Uint8Array.of(0, 16, 0, 64) });
  const { sent, result } = converse(asked, [noise, answer(readRegister)]);
  expect(sent).toHaveLength(2);
  expect(result).toMatchObject({ command: readRegister });
});

test('a packet whose end got lost is ended: what it was answered then counts, and it is not sent again', () => {
  const family = espFamilies.find(({ name }) => name === 'ESP32');
  if (family === undefined) throw new Error('no ESP32');
  const write = new EspWriter(family).write(0x1_0000, new Uint8Array(4096));
  const { sent } = converse(write, [answer(deflateBegin), silence, answer(deflateData)]);
  expect(write.next(silence).done).toBe(true);
  expect(sent.at(-1)).toMatchObject({ kind: 'exchange', send: frameBreak });
});

test.each([
  [[1, 1], 1],
  [[1, 2, 2], 2],
  [[1, 2, 1, 2, 2], 2],
])('of %j, a value that repeats is believed', (values, believed) => {
  const rest = [...values];
  const { result } = converse(
    untilSameTwice(() => said(rest.shift() ?? 0)),
    [],
  );
  expect(result).toBe(believed);
});

test('what is different each time is not believed', () => {
  let value = 0;
  const doubtful = untilSameTwice(() => said((value += 1)));
  expect(() => doubtful.next()).toThrow('answers differently each time');
});

function* said(value: number): Conversation<number> {
  yield* [];
  return value;
}
