import { expect, test } from 'vitest';

import { flash } from '../../../../../src/mcu/flash/flash.ts';
import { readImage } from '../../../../../src/mcu/images/read-image.ts';
import { smp } from '../../../../../src/mcu/protocols/smp/smp.ts';
import { SmpModel } from '../../../../fakes/boards/models/smp/smp-model.ts';
import { mcubootFile } from '../../images/build.ts';
import { program, rigOf } from '../fault-matrix.ts';

const signal = new AbortController().signal;
const programs = { old: mcubootFile(program(4_000, 1)), new: mcubootFile(program(4_000, 2)) };

function recovery(bufferBytes = 256, latencyMs = 0): ReturnType<typeof rigOf> {
  return rigOf(
    {
      protocol: () => smp(),
      model: (images) => new SmpModel({ programs: images, framing: 'console', bufferBytes }),
      programs,
      start: 0,
      baud: 115_200,
      mayBlankStart: false,
      obeysNoise: false,
    },
    latencyMs,
  );
}

const image = readImage(programs.new);

// Regression: after one damaged reply, each reply was matched to the next message, until the upload failed.
test('a late answer to an earlier message is passed over, and the upload needs no second connection', async () => {
  const clean = recovery();
  await flash({ image }, clean.board, signal);
  for (const at of clean.port.shortAnswers.slice(4)) {
    const { model, port, board } = recovery();
    port.inject({ kind: 'flip', direction: 'to-host', at: at + 12 });
    const report = await flash({ image }, board, signal);
    expect(model.ran).toEqual(['new']);
    expect(report.resets).toBe(1);
  }
});

test('an image that the board holds is not sent again', async () => {
  const { model, board } = recovery();
  expect((await flash({ image }, board, signal)).unitsWritten).toBe(1);
  expect(model.ran).toEqual(['new']);
  expect(await flash({ image }, board, signal)).toMatchObject({ unitsWritten: 0, known: 'first-slot' });
  expect(model.ran).toEqual(['new', 'new']);
});

test('messages are as large as the server accepts, and two in flight hide the latency', async () => {
  const small = recovery(256, 16);
  await flash({ image }, small.board, signal);
  const large = recovery(1_024, 16);
  await flash({ image }, large.board, signal);
  expect(large.model.violations).toEqual([]);
  expect(large.port.clock.monotonicMs()).toBeLessThan(small.port.clock.monotonicMs());
});

test('an image that is not signed for MCUboot is refused', async () => {
  const { model, board } = recovery();
  const raw = readImage(program(1_000, 3), { address: 0, isRaw: true });
  await expect(flash({ image: raw }, board, signal)).rejects.toMatchObject({ code: 'image-wrong-chip' });
  expect(Buffer.compare(model.memory, programs.old)).toBe(0);
});
