import { setImmediate } from 'node:timers/promises';

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { flashableApart } from '../../../../src/mcu/apart/folder-side.ts';
import type { FlashStepAnswer, LinePort } from '../../../../src/mcu/apart/line-port.ts';
import { LineSide } from '../../../../src/mcu/apart/line-side.ts';
import { MAX_PACKED_BYTES, packImage, piecesOf, unpackImage } from '../../../../src/mcu/apart/packed-image.ts';
import type { Board } from '../../../../src/mcu/connection.ts';
import { McuError } from '../../../../src/mcu/errors.ts';
import type { FlashProgress, FlashRequest } from '../../../../src/mcu/flash/flash.ts';
import { makeImage } from '../../../../src/mcu/images/image.ts';
import type { Image, Segment } from '../../../../src/mcu/images/image.ts';
import { readImage } from '../../../../src/mcu/images/read-image.ts';
import { stk500v1 } from '../../../../src/mcu/protocols/stk500v1.ts';
import { OptibootModel } from '../../../stand-ins/boards/models/avr-model.ts';
import { espSubject } from '../protocols/esp-subject.ts';
import { program, rigOf } from '../protocols/fault-matrix.ts';
import type { Subject } from '../protocols/fault-matrix.ts';

const signal = new AbortController().signal;
const size = 8 * 128;
const old = program(size, 1);
const next = program(size, 2);

const avr: Subject = {
  protocol: () => stk500v1({ bootloaderBytes: 0x8000 - size }),
  model: (programs) => new OptibootModel({ programs, pageBytes: 128 }),
  programs: { old, new: next },
  start: 0,
  baud: 115_200,
  mayBlankStart: true,
  obeysNoise: true,
};

/** The line of one board, without a link between the two sides. When a job is closed, nobody has the line any more. */
function lineTo(plugged: ReturnType<typeof rigOf>['board']): LinePort {
  let opened = 0;
  const openLine: Board['openLine'] = async (...settings) => {
    const line = await plugged.openLine(...settings);
    opened += 1;
    return Object.assign(line, { [Symbol.asyncDispose]: async () => void (opened -= 1) });
  };
  const board = { ...plugged, openLine };
  const jobs: LineSide[] = [];
  const jobAt = (job: number): LineSide => jobs[job] ?? expect.fail('there is no such job');
  return {
    open: async (order) => jobs.push(new LineSide(board, order)) - 1,
    feed: async (job, piece) => jobAt(job).feed(piece),
    step: async (job, ending) => jobAt(job).step(ending),
    close: async (job) => {
      await jobAt(job)[Symbol.asyncDispose]();
      expect(opened).toBe(0);
    },
    outOfTurn: (what) => new Error(`${what} came out of turn`),
  };
}

function benchOf(subject: Subject): ReturnType<typeof rigOf> & { readonly apart: ReturnType<typeof flashableApart> } {
  const rig = rigOf(subject);
  return { ...rig, apart: flashableApart(rig.board, lineTo(rig.board)) };
}

function imageOf(bytes: Uint8Array, { start }: Subject): Image {
  return readImage(bytes, { address: start });
}

/** Notes what happens in its order, and what the board holds when that has taken a while. */
function noted(memory: () => string): { readonly said: string[]; readonly request: Partial<FlashRequest> } {
  const said: string[] = [];
  return {
    said,
    request: {
      keep: async (previous) => {
        await aWhile();
        said.push(`keep ${previous?.sizeBytes ?? 'nothing'} of ${memory()}`);
      },
      beforeWriting: async () => {
        await aWhile();
        said.push(`mark ${memory()}`);
      },
    },
  };
}

/** Long enough for a board that does not wait to be written. */
async function aWhile(): Promise<void> {
  for (let turns = 0; turns < 1_000; turns += 1) await setImmediate();
}

describe('a board whose folder is in another process', () => {
  test('is flashed as one whose folder is here: what it held is kept, and the mark is made, before its first byte changes', async () => {
    const { model, apart } = benchOf(avr);
    const holds = (): string => (Buffer.compare(model.memory, old) === 0 ? 'old' : 'changed');
    const { said, request } = noted(holds);
    const phases = new Set<FlashProgress['phase']>();
    const onProgress = ({ phase }: FlashProgress): void => void phases.add(phase);
    const facts = await apart.flash({ image: imageOf(next, avr), ...request, onProgress }, signal);
    expect(said).toEqual(['keep 1024 of old', 'mark old']);
    expect(model.ran).toEqual(['new']);
    expect(facts).toMatchObject({
      chip: { name: 'ATmega328P' },
      unitsWritten: 8,
      imageDigest: imageOf(next, avr).digest,
    });
    expect([...phases]).toEqual(['connecting', 'keeping', 'writing', 'starting', 'done']);
    expect(await apart.flash({ image: imageOf(next, avr) }, signal)).toMatchObject({ unitsWritten: 0 });
  });

  test('and that cannot be read back is compared with what it probably holds', async () => {
    const { model, apart } = benchOf(espSubject);
    const image = imageOf(espSubject.programs.new, espSubject);
    const { said, request } = noted(() => '');
    await apart.flash({ image, expected: imageOf(espSubject.programs.old, espSubject), ...request }, signal);
    expect(said).toEqual(['mark ']);
    expect(model.ran.at(-1)).toBe('new');
  });

  test.each(['keep', 'beforeWriting'] as const)(
    'is not touched where %s fails, and its line is free afterwards',
    async (what) => {
      const { model, apart } = benchOf(avr);
      const full = async (): Promise<never> => {
        await aWhile();
        throw new McuError('payload-damaged', 'the disk is full');
      };
      const image = imageOf(next, avr);
      const { request } = noted(() => '');
      await expect(apart.flash({ image, ...request, [what]: full }, signal)).rejects.toThrow('the disk is full');
      expect(Buffer.compare(model.memory, old)).toBe(0);
      await apart.flash({ image }, signal);
      expect(model.ran.at(-1)).toBe('new');
    },
  );

  test('tells the error of its line, as it is', async () => {
    const { apart } = benchOf(avr);
    const beyond = makeImage('raw', [{ address: 0x9000, bytes: next }]);
    await expect(apart.flash({ image: beyond }, signal)).rejects.toMatchObject({ code: 'image-outside-chip' });
  });

  test('is flashed again after it was called off at any step', async () => {
    let calledOff = 0;
    for (let step = 1; step <= 12; step += 1) {
      const { model, apart } = benchOf(avr);
      const ending = new AbortController();
      let steps = 0;
      const onProgress = (): void => void ((steps += 1) === step && ending.abort(new Error('called off')));
      const request = { image: imageOf(next, avr), onProgress, ...noted(() => '').request };
      const end = await apart.flash(request, ending.signal).catch((error: unknown) => error);
      if (end instanceof Error) calledOff += 1;
      await apart.flash({ image: imageOf(next, avr) }, signal);
      expect(Buffer.compare(model.memory, next)).toBe(0);
      expect(model.ran).not.toContain('broken');
    }
    expect(calledOff).toBeGreaterThan(6);
  });
});

describe('a line that somebody has broken into', () => {
  const held = (isLast: boolean, bytes?: Uint8Array): FlashStepAnswer => ({ step: { kind: 'held', isLast }, bytes });
  const writing: FlashStepAnswer = { step: { kind: 'writing' } };
  const flashed = (unitsWritten: number): FlashStepAnswer => ({
    step: { kind: 'flashed', chip: 'x', unitsWritten, repeated: 0 },
  });
  const packed = packImage(imageOf(old, avr)).bytes;

  /** What became of the folder, by what the line says. */
  async function endOf(answers: readonly FlashStepAnswer[], keeps = true): Promise<readonly string[]> {
    const rest = [...answers];
    let closed = 0;
    const line: LinePort = {
      ...lineTo(rigOf(avr).board),
      open: async () => 0,
      feed: async () => {},
      step: async () => rest.shift() ?? flashed(0),
      close: async () => void (closed += 1),
    };
    const { said, request } = noted(() => 'it');
    const { keep, ...others } = request;
    const asked = { image: imageOf(next, avr), ...others, ...(keeps && { keep }) };
    await flashableApart(rigOf(avr).board, line)
      .flash(asked, signal)
      .then(
        () => said.push('flashed'),
        (error: unknown) => said.push((error as Error).message),
      );
    expect(closed).toBe(1);
    return said;
  }

  test.each<[string, readonly FlashStepAnswer[], readonly string[]]>([
    ['is flashed without a mark', [flashed(1)], ['the end of a flash came out of turn']],
    ['is written twice', [writing, writing], ['mark it', 'the writing of a board came out of turn']],
    [
      'held something twice',
      [held(true, packed), held(true, packed)],
      ['keep 1024 of it', 'what a board held came out of turn'],
    ],
    [
      'held something else once it is written',
      [writing, held(true, packed)],
      ['mark it', 'what a board held came out of turn'],
    ],
    ['held nothing, and more of it', [held(false)], ['what a board held came out of turn']],
    ['held what is no image', [held(true, packed.subarray(1))], ['an image does not come across as it was packed']],
    ['sends bytes with another step', [{ ...writing, bytes: packed }], ['the content of a board came out of turn']],
    ['held nothing', [held(true), writing, flashed(1)], ['keep nothing of it', 'mark it', 'flashed']],
  ])('that says that the board %s is believed as far as that may be', async (_, answers, said) => {
    expect(await endOf(answers)).toEqual(said);
  });

  test('that says more than a chip holds is refused', async () => {
    const piece = Buffer.alloc(1024 * 1024);
    const pieces = Array.from({ length: MAX_PACKED_BYTES / piece.byteLength + 1 }, () => held(false, piece));
    expect(await endOf(pieces)).toEqual(['what a board held came out of turn']);
  });

  // Seen: so many segments ended the helper's heap, then and at each later look at what was kept.
  test('that says it in more segments, or pieces, than a chip has is refused', async () => {
    const one = (page: number): Segment => ({ address: page * 16, bytes: packed.subarray(0, 8) });
    const pages = makeImage(
      'raw',
      Array.from({ length: 65_537 }, (_, page) => one(page)),
    );
    const { bytes } = packImage(pages);
    expect(await endOf([held(true, bytes)])).toEqual(['an image does not come across as it was packed']);
    expect(await endOf([held(true, bytes.subarray(16)), flashed(0)])).toContain('flashed');
    expect(await endOf(Array<FlashStepAnswer>(200).fill(held(false, Buffer.alloc(1))))).toEqual([
      'what a board held came out of turn',
    ]);
  });

  test('that says what nobody asked for is refused', async () => {
    expect(await endOf([held(true, packed)], false)).toEqual(['what a board held came out of turn']);
  });
});

describe('an image that was packed', () => {
  const images = fc
    .uniqueArray(
      fc.record({
        page: fc.nat({ max: 40 }),
        bytes: fc.uint8Array({ minLength: 1, maxLength: 64 }).map((bytes) => Buffer.from(bytes)),
      }),
      {
        selector: ({ page }) => page,
        minLength: 1,
      },
    )
    .map((pieces) =>
      makeImage(
        'uf2',
        pieces.map(({ page, bytes }) => ({ address: page * 64, bytes })),
        { kind: 'elf-machine', machine: 83 },
      ),
    );

  test('is the same when it is unpacked, however it is cut', () => {
    fc.assert(
      fc.property(images, (image) => {
        const { about, bytes } = packImage(image);
        expect(about.packedBytes).toBe(bytes.byteLength);
        expect(unpackImage(about, Buffer.concat([...piecesOf(bytes)]))).toEqual(image);
      }),
    );
  });

  test('of any other bytes is an image or an error of boards', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        expect(['image', 'McuError']).toContain(kindOf(Buffer.from(bytes)));
      }),
    );
  });
});

function kindOf(bytes: Buffer): string {
  try {
    return unpackImage({ format: 'raw', madeFor: undefined }, bytes).sizeBytes > 0 ? 'image' : 'nothing';
  } catch (error) {
    return error instanceof McuError ? 'McuError' : String(error);
  }
}
