import { join } from 'node:path';

import { beforeEach, describe, expect, test } from 'vitest';

import { BoardStore } from '../../../src/mcu/flash/board-store.ts';
import type { Image } from '../../../src/mcu/images/image.ts';
import { readImage } from '../../../src/mcu/images/read-image.ts';
import { createMcuTarget, recoverBoard } from '../../../src/mcu/mcu-target.ts';
import { esp } from '../../../src/mcu/protocols/esp/esp.ts';
import { smp } from '../../../src/mcu/protocols/smp/smp.ts';
import { evidenceOfKept } from '../../../src/update/evidence.ts';
import type { BoardPayload, McuTarget } from '../../../src/update/ports.ts';
import { selectSecondSlot } from '../../fakes/boards/models/esp-bootloader.ts';
import { espApplication } from '../../fakes/boards/models/esp-image.ts';
import { EspModel } from '../../fakes/boards/models/esp-model.ts';
import { espTraits } from '../../fakes/boards/models/esp-traits.ts';
import { SmpModel } from '../../fakes/boards/models/smp/smp-model.ts';
import type { SmpModelOptions } from '../../fakes/boards/models/smp/smp-model.ts';
import { folderUntilTestEnds } from '../../until-test-ends.ts';
import { mcubootFile } from './images/build.ts';
import { program, rigOf } from './protocols/fault-matrix.ts';

const signal = new AbortController().signal;
const programs = { old: mcubootFile(program(2_000, 1)), new: mcubootFile(program(2_000, 2)) };

let directory: string;

beforeEach(() => {
  directory = folderUntilTestEnds();
});

interface Bench extends ReturnType<typeof rigOf> {
  readonly model: SmpModel;
  readonly store: BoardStore;
  readonly target: McuTarget;
  readonly restart: () => void;
}

function benchOf(options: Partial<SmpModelOptions>, confirm = false): Bench {
  const model = new SmpModel({ programs, framing: 'console', bufferBytes: 512, server: 'application', ...options });
  const rig = rigOf({
    protocol: () => smp({ confirm }),
    model: () => model,
    programs,
    start: 0,
    baud: 115_200,
    mayBlankStart: false,
    obeysNoise: false,
  });
  const store = new BoardStore(join(directory, 'boards/meter'));
  const target = createMcuTarget({
    board: rig.board,
    port: '/dev/null',
    store,
    readImage: async (file) => readImage(file),
  });
  return { ...rig, model, store, target, restart: () => model.power(rig.port.clock.monotonicMs()) };
}

async function install({ target }: Pick<Bench, 'target'>, file: Uint8Array): Promise<BoardPayload> {
  const payload = { fileName: 'meter.bin', target: { name: 'meter' }, order: undefined };
  await using writer = await target.openFile({ payload, sizeBytes: file.byteLength, resumeAt: undefined }, signal);
  await writer.write(file);
  const { digest } = await writer.finish(signal);
  const staged = { digest, onProgress: () => {} };
  await target.flash(staged, evidenceOfKept({ target: 'board', recorded: digest, found: digest }), signal);
  return staged;
}

describe.each([true, false])('the first update of a board with slots, with confirm = %s', (confirm) => {
  test.each([true, false])('returns the board to its previous image for good', async (confirmsItself) => {
    const bench = benchOf({ confirmsItself }, confirm);
    const payload = await install(bench, programs.new);
    expect(bench.model.ran.at(-1)).toBe('new');
    await bench.target.restore(payload, evidenceOfKept, signal);
    for (let restarts = 0; restarts < 3; restarts += 1) {
      expect(bench.model.ran.at(-1)).toBe('old');
      bench.restart();
    }
    expect(await bench.store.flashed()).toMatchObject({ name: 'put back', known: 'active-slot' });
  });
});

test('reports a board that overwrote its previous image and cannot return to it', async () => {
  const bench = benchOf({ mode: 'overwrite' }, true);
  const payload = await install(bench, programs.new);
  await expect(bench.target.restore(payload, evidenceOfKept, signal)).rejects.toMatchObject({
    code: 'board-not-restorable',
  });
  expect(await bench.store.writing()).toBeUndefined();
  expect(bench.model.ran.at(-1)).toBe('new');
});

test('restores an overwritten image from its file', async () => {
  const bench = benchOf({ mode: 'overwrite' }, true);
  await install(bench, programs.old);
  const payload = await install(bench, programs.new);
  await bench.target.restore(payload, evidenceOfKept, signal);
  expect(bench.model.ran.at(-1)).toBe('old');
});

test('records that a board runs an image on trial, and from which slot', async () => {
  const bench = benchOf({});
  await install(bench, programs.new);
  const flashed = await bench.store.flashed();
  expect(flashed?.known).toBe('on-trial');
  expect(flashed?.boots).toContain('slot 0, version 1.2.3.4');
});

test('returns an ESP to the slot that ran before its first update', async () => {
  const images = { old: espApplication(program(5_000, 1)), new: espApplication(program(5_000, 2)) };
  const model = new EspModel({ programs: images, traits: espTraits('esp32'), start: 0x10000 });
  selectSecondSlot(model.flash.bytes, images.old);
  const subject = { programs: images, start: 0x10000, baud: 115_200, mayBlankStart: false, obeysNoise: false };
  const { board } = rigOf({ ...subject, protocol: () => esp(), model: () => model });
  const store = new BoardStore(join(directory, 'boards/meter'));
  const readAt = async (file: Uint8Array): Promise<Image> => readImage(file, { address: 0x10000 });
  const target = createMcuTarget({ board, port: '/dev/null', store, readImage: readAt });
  const payload = await install({ target }, images.new);
  expect(model.ran.at(-1)).toBe('new');
  expect(await store.flashed()).toMatchObject({ known: 'otadata', boots: 'ota_0' });
  await target.restore(payload, evidenceOfKept, signal);
  expect(model.ran.at(-1)).toBe('old');
  expect(await store.flashed()).toMatchObject({ known: 'otadata', boots: 'ota_1' });
});

test('finishes an interrupted restore', async () => {
  const bench = benchOf({}, true);
  const payload = await install(bench, programs.new);
  const stop = new AbortController();
  const onProgress = (): void => stop.abort(new Error('stopped'));
  await bench.store.beginWriting({
    name: 'put back',
    at: new Date(0).toISOString(),
    begun: 1,
    image: (await bench.store.kept())?.image ?? readImage(programs.new),
  });
  await expect(bench.target.restore({ ...payload, onProgress }, evidenceOfKept, stop.signal)).rejects.toThrow(
    'stopped',
  );
  const job = { board: bench.board, store: bench.store, onProgress: () => {}, vouch: evidenceOfKept };
  expect(await recoverBoard(job, signal)).toBe('put back');
  expect(bench.model.ran.at(-1)).toBe('old');
});
