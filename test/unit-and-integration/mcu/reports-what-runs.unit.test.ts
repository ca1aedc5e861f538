import fc from 'fast-check';
import { expect, test } from 'vitest';

import { isBoardError } from '../../../src/mcu/errors.ts';
import { flash } from '../../../src/mcu/flash/flash.ts';
import type { FlashReport, FlashRequest } from '../../../src/mcu/flash/flash.ts';
import { makeImage } from '../../../src/mcu/images/image.ts';
import { readImage } from '../../../src/mcu/images/read-image.ts';
import { esp } from '../../../src/mcu/protocols/esp/esp.ts';
import { smp } from '../../../src/mcu/protocols/smp/smp.ts';
import { otaEntry, partitionTable, twoSlots } from '../../fakes/boards/models/esp-bootloader.ts';
import type { OtaState } from '../../fakes/boards/models/esp-bootloader.ts';
import { espApplication, espImage } from '../../fakes/boards/models/esp-image.ts';
import { EspModel } from '../../fakes/boards/models/esp-model.ts';
import { espTraits } from '../../fakes/boards/models/esp-traits.ts';
import { SmpModel } from '../../fakes/boards/models/smp/smp-model.ts';
import { mcubootFile } from './images/build.ts';
import { program, rigOf } from './protocols/fault-matrix.ts';

/** Boards in any possible state: the reported program is the running one. */
const signal = new AbortController().signal;

/** The report, or the code of the error. */
async function ended(request: FlashRequest, board: ReturnType<typeof rigOf>['board']): Promise<FlashReport | string> {
  try {
    return await flash(request, board, signal);
  } catch (error) {
    if (isBoardError(error)) return error.code;
    throw error;
  }
}

const signed = (seed: number): Buffer => mcubootFile(program(300, seed), undefined, undefined, seed);
const files = { v1: signed(1), v2: signed(2), v3: signed(3) };
const broken = Buffer.from(files.v3).fill(0, 40, 41);
const smpPrograms = { old: files.v1, new: files.v2 };

const mcubootBoard = fc.record({
  server: fc.constantFrom('recovery', 'application'),
  mode: fc.constantFrom('swap', 'overwrite'),
  second: fc.constantFrom('none', 'v1', 'v2', 'v3', 'broken'),
  mark: fc.constantFrom('none', 'test', 'stay', 'on trial'),
  states: fc.boolean(),
  frugal: fc.boolean(),
  confirmsItself: fc.boolean(),
  confirm: fc.boolean(),
  toStay: fc.boolean(),
  imagesBefore: fc.constantFrom<readonly Buffer[]>([], [files.v3]),
});

type McubootBoard = typeof mcubootBoard extends fc.Arbitrary<infer Made> ? Made : never;

function modelOf({ second, mark, confirm: _, toStay: __, ...board }: McubootBoard): SmpModel {
  const other = { ...files, broken, none: undefined }[second];
  const options = { ...board, programs: smpPrograms, framing: 'console', bufferBytes: 512 } as const;
  const model = new SmpModel({ ...options, ...(other !== undefined && { other }) });
  if (mark !== 'none') model.images.at(-1)?.setNext(1, mark === 'stay');
  if (mark === 'on trial') model.power(0);
  return model;
}

/** True if the board does, now and after two restarts, what the report claims. */
function isTrue({ known }: FlashReport, { mark, toStay, confirm }: McubootBoard, ran: readonly string[]): boolean {
  // serial recovery without states cannot show earlier requests, and claims less
  if (known === 'first-slot' && mark !== 'none') return true;
  if (known === 'on-trial') return ran[0] === 'new' && !toStay && !confirm;
  return ran.every((name) => name === 'new');
}

test('reports of a board with MCUboot what it runs', async () => {
  await fc.assert(
    fc.asyncProperty(mcubootBoard, async (made) => {
      const model = modelOf(made);
      const { confirm, toStay, imagesBefore, server } = made;
      const { board, port } = rigOf({
        protocol: () => smp({ image: imagesBefore.length, confirm }),
        model: () => model,
        programs: smpPrograms,
        start: 0,
        baud: 115_200,
        mayBlankStart: false,
        obeysNoise: false,
      });
      const report = await ended({ image: readImage(files.v2), ...(toStay && { toStay }) }, board);
      const ran: string[] = [];
      for (let restarts = 0; restarts < 3; restarts += 1) {
        ran.push(model.ran.at(-1) ?? 'nothing');
        model.power(port.clock.monotonicMs());
      }
      // serial recovery finishes a change that was requested before
      const isRefused = report === 'board-refused' && server === 'recovery' && made.mark !== 'none';
      expect(isRefused || (typeof report !== 'string' && isTrue(report, made, ran))).toBe(true);
    }),
    { numRuns: 150 },
  );
});

const espPrograms = { old: espApplication(program(500, 1)), new: espApplication(program(500, 2)) };
const entry = fc.option(
  fc.record({
    sequence: fc.integer({ min: 1, max: 9 }),
    state: fc.constantFrom<OtaState>('new', 'pending', 'valid', 'invalid', 'aborted', 'undefined'),
    isDamaged: fc.boolean(),
  }),
  { nil: undefined },
);
const espBoard = fc.record({
  entries: fc.tuple(entry, entry),
  hasFactory: fc.boolean(),
  rollback: fc.boolean(),
  target: fc.constantFrom(0x10000, 0x20000, 0x30000),
  holdsNew: fc.boolean(),
});

type EspBoard = typeof espBoard extends fc.Arbitrary<infer Made> ? Made : never;

/** Applications that start once at most, in front of another application. */
const abandoned: [EspBoard][] = [
  [espOf({ entries: [entryOf(8, 'new'), entryOf(9, 'pending')], target: 0x20000 })],
  [espOf({ entries: [entryOf(7, 'new'), entryOf(4, 'new')], target: 0x10000, rollback: true })],
];

function espOf(made: Pick<EspBoard, 'entries' | 'target'> & Partial<EspBoard>): EspBoard {
  return { hasFactory: false, rollback: false, holdsNew: false, ...made };
}

function entryOf(sequence: number, state: OtaState): { sequence: number; state: OtaState; isDamaged: boolean } {
  return { sequence, state, isDamaged: false };
}

test('reports of an ESP what it runs', async () => {
  await fc.assert(
    fc.asyncProperty(espBoard, async ({ entries, hasFactory, rollback, target, holdsNew }) => {
      fc.pre(hasFactory || target !== 0x30000);
      const model = new EspModel({ traits: espTraits('esp32'), programs: espPrograms, start: 0x10000, rollback });
      const { bytes } = model.flash;
      for (const at of [0x10000, 0x20000, ...(hasFactory ? [0x30000] : [])]) bytes.set(espPrograms.old, at);
      if (holdsNew) bytes.set(espPrograms.new, target);
      bytes.set(partitionTable(twoSlots(hasFactory)), 0x8000);
      for (const [index, made] of entries.entries()) {
        if (made === undefined) continue;
        const held = otaEntry(made.sequence, made.state);
        if (made.isDamaged) held[28] = 0;
        bytes.set(held, 0xd000 + index * 4096);
      }
      const { board, port } = rigOf({
        protocol: () => esp(),
        model: () => model,
        programs: espPrograms,
        start: 0x10000,
        baud: 115_200,
        mayBlankStart: true,
        obeysNoise: false,
      });
      expect(await ended({ image: readImage(espPrograms.new, { address: target }) }, board)).toMatchObject({
        known: 'otadata',
      });
      for (let restarts = 0; restarts < 4; restarts += 1) {
        expect(model.ran.at(-1)).toBe('new');
        model.power(port.clock.monotonicMs());
      }
    }),
    { numRuns: 150, examples: abandoned },
  );
});

const espBootloader = espImage(program(500, 3));
const espFile = fc.record({
  address: fc.oneof(
    fc.constantFrom(
      0,
      0x1000,
      0x1100,
      0x4000,
      0x8000,
      0x9000,
      0xd000,
      0x10000,
      0x10100,
      0x11000,
      0x18000,
      0x1f000,
      0x20000,
    ),
    fc.integer({ min: 0, max: 0x38000 }),
  ),
  file: fc.constantFrom(
    espPrograms.new,
    espBootloader,
    espApplication(program(500, 2), 5),
    espApplication(program(70_000, 2)),
    program(500, 4),
    otaEntry(2),
    Buffer.from(otaEntry(2)).fill(0, 28, 29),
    partitionTable([{ name: 'factory', type: 0, subtype: 0, start: 0x30000, bytes: 0x8000 }]),
  ),
  damagedAt: fc.option(fc.integer({ min: 32, max: 530 }), { nil: undefined }),
  keptBytes: fc.option(fc.integer({ min: 2, max: 500 }), { nil: undefined }),
});

test('leaves an ESP with a program, whatever is written where', async () => {
  await fc.assert(
    fc.asyncProperty(espFile, async ({ address, file, damagedAt, keptBytes }) => {
      fc.pre(address + file.byteLength <= 0x40000);
      const model = new EspModel({ traits: espTraits('esp32'), programs: espPrograms, start: 0x10000 });
      const { bytes } = model.flash;
      bytes.set(espBootloader, 0x1000);
      bytes.set(partitionTable(twoSlots()), 0x8000);
      bytes.set(otaEntry(1), 0xd000);
      const before = Buffer.from(bytes.subarray(0x1000, 0x9000));
      const written = Uint8Array.from(file);
      if (damagedAt !== undefined) written[damagedAt] = (written[damagedAt] ?? 0) ^ 0x10;
      const isWhole = damagedAt === undefined && keptBytes === undefined;
      const { board } = rigOf({
        protocol: () => esp(),
        model: () => model,
        programs: espPrograms,
        start: 0x10000,
        baud: 115_200,
        mayBlankStart: true,
        obeysNoise: false,
      });
      const image = makeImage('raw', [{ address, bytes: written.subarray(0, keptBytes) }]);
      const report = await ended({ image }, board);
      const isNew = isWhole && file === espPrograms.new && [0x10000, 0x20000].includes(address);
      expect([typeof report === 'string' && isNew, model.ran.at(-1)]).toEqual([false, isNew ? 'new' : 'old']);
      expect(before.equals(bytes.subarray(0x1000, 0x9000))).toBe(true);
      if (typeof report === 'string') return;
      expect(report.known).toBe(isNew ? 'otadata' : 'sent');
      expect(isNew || file[0] !== 0xe9 || address === 0x1000).toBe(true);
    }),
    { numRuns: 150 },
  );
});
