import { expect, test } from 'vitest';

import { flash } from '../../../../src/mcu/flash/flash.ts';
import { makeImage } from '../../../../src/mcu/images/image.ts';
import { stk500v2 } from '../../../../src/mcu/protocols/stk500v2.ts';
import { WiringModel } from '../../../fakes/boards/models/avr-model.ts';
import { readBack } from '../../../fakes/boards/read-back.ts';
import { program, rigOf } from './fault-matrix.ts';
import type { Subject } from './fault-matrix.ts';

const signal = new AbortController().signal;
const old = program(4_096, 1);
const next = program(1_024, 2);
const image = makeImage('raw', [{ address: 0, bytes: next }]);

const afterwards = Uint8Array.from(old);
afterwards.set(next);

/** An ATmega2560 with 4 KiB before its boot section, of which the image fills one. */
function mega(after = afterwards): ReturnType<typeof rigOf> {
  const subject: Subject = {
    protocol: () => stk500v2({ bootloaderBytes: 256 * 1024 - 4_096 }),
    model: (programs) => new WiringModel({ programs, pageBytes: 256 }),
    programs: { old, new: after },
    start: 0,
    baud: 115_200,
    mayBlankStart: true,
    obeysNoise: false,
  };
  return rigOf(subject);
}

test('a lost acknowledgement makes the bootloader erase neither a finished page nor one behind the image', async () => {
  const clean = mega();
  await flash({ image }, clean.board, signal);
  for (const at of clean.port.shortAnswers) {
    const { model, port, board } = mega();
    port.inject({ kind: 'drop', direction: 'to-host', at });
    await flash({ image }, board, signal);
    expect(model.ran).toEqual(['new']);
  }
});

test('rewrites a damaged page whose damage was hidden by the filler of a resume', async () => {
  const resembling = Uint8Array.from(next).fill(0xa5, 26, 256);
  const all = Uint8Array.from(old);
  all.set(resembling);
  const rig = (): ReturnType<typeof rigOf> => mega(all);
  const clean = rig();
  await flash({ image: makeImage('raw', [{ address: 0, bytes: resembling }]) }, clean.board, signal);
  const bytes = clean.port.counts['to-board'];
  for (let at = bytes - 330; at < bytes; at += 11) {
    const { model, port, board } = rig();
    port.inject({ kind: 'drop', direction: 'to-board', at });
    await flash({ image: makeImage('raw', [{ address: 0, bytes: resembling }]) }, board, signal);
    expect(model.ran).toEqual(['new']);
  }
});

test('ignores a reply to another message', () => {
  const conversation = stk500v2().connect();
  const nothing = { bytes: new Uint8Array(), whole: true };
  conversation.next();
  expect(conversation.next(nothing).value).toMatchObject({ kind: 'exchange' });
  const stale = [0x1b, 9, 0, 11, 0x0e, 1, 0, 8, ...Buffer.from('AVRISP_2')];
  const sum = stale.reduce((total, byte) => total ^ byte, 0);
  const next = conversation.next({ bytes: Uint8Array.of(...stale, sum), whole: true });
  expect(next.value).toEqual({ kind: 'discard', quietMs: 20 });
});

test('a damaged answer does not get into what is read back', async () => {
  for (const at of [1_000, 2_000, 3_000]) {
    const { port, board } = mega();
    port.inject({ kind: 'flip', direction: 'to-host', at });
    const read = await readBack(board, signal);
    expect(read?.digest).toBe(makeImage('raw', [{ address: 0, bytes: old }]).digest);
  }
});
