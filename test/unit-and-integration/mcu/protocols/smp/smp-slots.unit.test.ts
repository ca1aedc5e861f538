import { describe, expect, test } from 'vitest';

import { flash, planFlash, probe } from '../../../../../src/mcu/flash/flash.ts';
import type { FlashReport, FlashRequest } from '../../../../../src/mcu/flash/flash.ts';
import type { Image } from '../../../../../src/mcu/images/image.ts';
import { readImage } from '../../../../../src/mcu/images/read-image.ts';
import { smp } from '../../../../../src/mcu/protocols/smp/smp.ts';
import type { SmpSettings } from '../../../../../src/mcu/protocols/smp/smp.ts';
import { SmpModel } from '../../../../fakes/boards/models/smp/smp-model.ts';
import type { SmpModelOptions } from '../../../../fakes/boards/models/smp/smp-model.ts';
import { mcubootFile } from '../../images/build.ts';
import { program, rigOf } from '../fault-matrix.ts';

const signal = new AbortController().signal;
const v1 = mcubootFile(program(3_000, 1), undefined, undefined, 1);
const v2 = mcubootFile(program(3_000, 2), undefined, undefined, 2);
const v3 = mcubootFile(program(3_000, 3), undefined, undefined, 3);
const programs = { old: v1, new: v2 };
const [old, next, third] = [readImage(v1), readImage(v2), readImage(v3)];

interface Bench {
  readonly model: SmpModel;
  /** Contents of the slots, for each image. */
  readonly slots: () => string[];
  readonly flash: (image: Image, more?: Partial<FlashRequest>) => Promise<FlashReport>;
  readonly board: ReturnType<typeof rigOf>['board'];
  /** Presses the reset button, or interrupts power. */
  readonly restart: () => void;
}

type Options = Partial<SmpModelOptions>;

function bench(options: Options, settings: SmpSettings = {}): Bench {
  const model = new SmpModel({ programs, framing: 'console', bufferBytes: 512, ...options });
  const { board, port } = rigOf({
    protocol: () => smp(settings),
    model: () => model,
    programs,
    start: 0,
    baud: 115_200,
    mayBlankStart: false,
    obeysNoise: false,
  });
  return {
    model,
    slots: () => model.images.map((image) => image.slots.map(({ image: held }) => nameOf(held)).join(' ')),
    board,
    flash: async (image, more) => flash({ image, ...more }, board, signal),
    restart: () => model.power(port.clock.monotonicMs()),
  };
}

function nameOf(held: Uint8Array | undefined): string {
  const name = Object.entries({ v1, v2, v3 }).find(([, file]) => Buffer.compare(file, held ?? Buffer.alloc(0)) === 0);
  return name?.[0] ?? (held === undefined ? '-' : '?');
}

const application = { server: 'application' } as const;
const confirm = { confirm: true } as const;

describe.each([
  ['an application that swaps', application, confirm, 'active-slot'],
  ['an application that swaps, on trial', { ...application, confirmsItself: true }, {}, 'active-slot'],
  ['an application that overwrites', { ...application, mode: 'overwrite' }, confirm, 'active-slot'],
  ['an application with short lists', { ...application, frugal: true }, confirm, 'active-slot'],
  [
    'the second image of an application',
    { ...application, imagesBefore: [v3] },
    { ...confirm, image: 1 },
    'active-slot',
  ],
  ['serial recovery', {}, {}, 'first-slot'],
  ['serial recovery that lists states', { states: true }, confirm, 'active-slot'],
  ['the second image of serial recovery', { imagesBefore: [v3] }, { image: 1 }, 'first-slot'],
  ['serial recovery without hashes', { hashes: false }, {}, 'sent'],
] as const satisfies readonly (readonly [string, Options, SmpSettings, string])[])(
  '%s',
  (_, options, settings, known) => {
    test('runs what is flashed, then what is restored, and stays with it', async () => {
      const { model, flash: bring, restart } = bench(options, settings);
      expect(await bring(next)).toMatchObject({ known, unitsWritten: 1 });
      expect(model.ran.at(-1)).toBe('new');
      expect(await bring(old, { toStay: true })).toMatchObject({ known });
      restart();
      restart();
      expect(model.ran.slice(-3)).toEqual(['old', 'old', 'old']);
    });

    test('runs an image that its second slot held', async () => {
      const { model, flash: bring } = bench({ ...options, other: v2 }, settings);
      expect(await bring(next)).toMatchObject({ known, unitsWritten: 1 });
      expect(model.ran.at(-1)).toBe('new');
    });

    test('keeps its slots if it runs the image already', async () => {
      const { model, slots, flash: bring } = bench({ ...options, other: v2 }, settings);
      const report = await bring(old);
      expect(report).toMatchObject({ known, unitsWritten: known === 'sent' ? 1 : 0 });
      expect(model.ran.at(-1)).toBe('old');
      expect(slots().at(-1)).toBe('v1 v2');
    });

    test('reports which slot starts', async () => {
      const { board } = bench(options, settings);
      expect((await probe(board, signal)).boots).toContain('slot 0');
      expect((await probe(board, signal)).boots).toContain('version 1.2.3.4');
    });
  },
);

describe('the first image of a board with two', () => {
  test.each([application, {}])('takes an image without touching the second one', async (options) => {
    const { slots, flash: bring } = bench({ ...options, imagesBefore: [v1] }, confirm);
    await bring(third);
    expect(slots().map((held) => held.slice(0, 2))).toEqual(['v3', 'v1']);
  });
});

describe('an image on trial', () => {
  test('runs once, and the board returns to the previous one unless the application confirms it', async () => {
    const { model, flash: bring, restart } = bench(application);
    expect(await bring(next)).toMatchObject({ known: 'on-trial' });
    expect(model.ran.at(-1)).toBe('new');
    restart();
    expect(model.ran.at(-1)).toBe('old');
  });

  test('is tried again where its first trial ended without a confirmation', async () => {
    const { model, flash: bring } = bench(application);
    await bring(next);
    expect(await bring(next)).toMatchObject({ known: 'on-trial' });
    expect(model.ran.at(-1)).toBe('new');
  });

  test('never stays where the previous one is put back', async () => {
    const { model, flash: bring, restart } = bench(application);
    await bring(next);
    expect(await bring(old, { toStay: true })).toMatchObject({ known: 'active-slot' });
    restart();
    restart();
    expect(model.ran.slice(-3)).toEqual(['old', 'old', 'old']);
  });

  test('ends before another image is sent', async () => {
    const { slots, flash: bring } = bench(application);
    await bring(next);
    await bring(third);
    expect(slots()).toEqual(['v3 v1']);
  });

  test('counts as a difference in a plan', async () => {
    const { board } = bench({ ...application, other: v2 });
    expect(await planFlash(next, board, signal)).toMatchObject({ unitsDifferent: 1 });
    expect(await planFlash(old, board, signal)).toMatchObject({ unitsDifferent: 0 });
  });
});

describe('an image that is selected for the next start', () => {
  test('is started before another one is sent', async () => {
    const { model, slots, flash: bring } = bench({ ...application, other: v2 }, confirm);
    model.images[0]?.setNext(1, false);
    expect(await bring(third)).toMatchObject({ known: 'active-slot' });
    expect(slots()).toEqual(['v3 v1']);
  });

  test('makes serial recovery refuse, since what it receives would not run', async () => {
    const { model, slots, flash: bring } = bench({ states: true, other: v2 });
    model.images[0]?.setNext(1, true);
    await expect(bring(third)).rejects.toMatchObject({ code: 'board-refused' });
    expect(model.ran.at(-1)).toBe('new');
    await bring(third);
    expect(slots()).toEqual(['v3 v1']);
  });
});

describe('what a board ran before', () => {
  async function keptOf({ flash: bring }: Bench, expected?: Image): Promise<Image | undefined> {
    const kept: (Image | undefined)[] = [];
    await bring(next, { expected, keep: async (image) => void kept.push(image) });
    expect(kept).toHaveLength(1);
    return kept[0];
  }

  test('is the file that is known of it, where the board runs that', async () => {
    expect(await keptOf(bench(application, confirm), old)).toBe(old);
  });

  test.each([undefined, third])('can be selected again without its file', async (expected) => {
    const rig = bench(application, confirm);
    const before = await keptOf(rig, expected);
    expect(before?.digest).not.toBe(expected?.digest);
    expect(await rig.flash(before ?? next, { toStay: true })).toMatchObject({ known: 'active-slot' });
    expect(rig.model.ran.at(-1)).toBe('old');
  });

  test('is lost without its file where it was overwritten', async () => {
    const rig = bench({ ...application, mode: 'overwrite' }, confirm);
    const before = await keptOf(rig);
    await expect(rig.flash(before ?? next)).rejects.toMatchObject({ code: 'board-not-restorable' });
    expect(rig.model.ran.at(-1)).toBe('new');
  });

  test('is the image that the board returns to, not the one on trial', async () => {
    const rig = bench(application);
    await rig.flash(third);
    const before = await keptOf(rig);
    await rig.flash(before ?? next, { toStay: true });
    expect(rig.model.ran.at(-1)).toBe('old');
  });
});

describe('a board is refused', () => {
  test.each([{}, confirm])('if MCUboot does not start the image', async (settings) => {
    const { model, flash: bring } = bench({ ...application, refuses: v2 }, settings);
    await expect(bring(next)).rejects.toMatchObject({ code: 'board-runs-other', remedy: 'give-up' });
    expect(model.ran.at(-1)).toBe('old');
  });

  test.each([application, {}])('for an image number that it lacks, untouched', async (options) => {
    const { slots, flash: bring } = bench({ ...options, other: v3 }, { image: 1 });
    await expect(bring(next)).rejects.toMatchObject({ code: 'board-unsupported' });
    expect(slots()).toEqual(['v1 v3']);
  });

  test('for an image number that names a slot to it, untouched', async () => {
    const { slots, flash: bring } = bench({ direct: true, imagesBefore: [v1] }, { image: 1 });
    await expect(bring(next)).rejects.toMatchObject({ code: 'board-unsupported' });
    expect(slots()).toEqual(['v1 -', 'v1 -']);
  });
});
