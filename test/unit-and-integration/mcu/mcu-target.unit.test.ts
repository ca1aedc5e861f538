import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, describe, expect, test } from 'vitest';

import { BoardStore, payloadDigest } from '../../../src/mcu/flash/board-store.ts';
import { readImage } from '../../../src/mcu/images/read-image.ts';
import { createMcuTarget, flashImage } from '../../../src/mcu/mcu-target.ts';
import { stk500v1 } from '../../../src/mcu/protocols/stk500v1.ts';
import { stm32 } from '../../../src/mcu/protocols/stm32/stm32.ts';
import { evidenceOfKept } from '../../../src/update/evidence.ts';
import type { BoardPayload, BoardProgress, McuTarget, Verified } from '../../../src/update/ports.ts';
import { OptibootModel } from '../../fakes/boards/models/avr-model.ts';
import { Stm32Model } from '../../fakes/boards/models/stm32-model.ts';
import { folderUntilTestEnds } from '../../until-test-ends.ts';
import { espSubject } from './protocols/esp-subject.ts';
import { program, rigOf } from './protocols/fault-matrix.ts';
import type { Subject } from './protocols/fault-matrix.ts';

const signal = new AbortController().signal;
const pageBytes = 128;
const pages = 8;
const size = pages * pageBytes;
const old = program(size, 1);
const next = program(size, 2);
const parked = Uint8Array.of(0xff, 0xcf);
const digest = payloadDigest(next);

let directory: string;
let progress: BoardProgress[];

beforeEach(() => {
  directory = folderUntilTestEnds();
  progress = [];
});

interface Bench extends ReturnType<typeof rigOf> {
  readonly store: BoardStore;
  readonly target: McuTarget;
}

function benchOf(subject: Subject): Bench {
  const rig = rigOf(subject);
  const store = new BoardStore(join(directory, 'boards/meter'));
  const read = async (file: Uint8Array): ReturnType<typeof asImage> => asImage(file, subject.start);
  return { ...rig, store, target: createMcuTarget({ board: rig.board, port: '/dev/null', store, readImage: read }) };
}

async function asImage(file: Uint8Array, address: number): Promise<ReturnType<typeof readImage>> {
  return readImage(file, { address, isRaw: true });
}

const avr: Subject = {
  protocol: () => stk500v1({ bootloaderBytes: 0x8000 - size }),
  model: (programs) => new OptibootModel({ programs, pageBytes }),
  programs: { old, new: next },
  start: 0,
  baud: 115_200,
  mayBlankStart: true,
  obeysNoise: true,
};

const stm32Subject: Subject = {
  protocol: () => stm32({ flashBytes: 2 * 1024 }),
  model: (programs) => new Stm32Model({ programs, pageBytes: 1024, productId: 0x410 }),
  programs: { old: program(2 * 1024, 1), new: program(2 * 1024, 2) },
  start: 0x0800_0000,
  baud: 115_200,
  mayBlankStart: false,
  obeysNoise: false,
};

async function stage({ target }: Bench, bytes: Uint8Array): Promise<BoardPayload> {
  const payload = { fileName: 'meter.bin', target: { name: 'meter' }, order: undefined };
  await using writer = await target.openFile({ payload, sizeBytes: bytes.byteLength, resumeAt: undefined }, signal);
  await writer.write(bytes);
  const written = await writer.finish(signal);
  return { digest: written.digest, onProgress: (step) => void progress.push(step) };
}

class Stopped extends Error {
  readonly code = 'killed';
}

/** `done`, or the code of the error. */
async function endOf(work: Promise<void>): Promise<unknown> {
  return work.then(
    () => 'done',
    (error: unknown) => (error as Stopped).code,
  );
}

const vouched = (payload: BoardPayload) => [payload, evidenceOf(payload.digest)] as const;

function evidenceOf(of: string): Verified {
  return evidenceOfKept({ target: 'board', recorded: of, found: of });
}

describe('a board of an update', () => {
  test('keeps the payload, tells its digest, flashes it and remembers that', async () => {
    const bench = benchOf(avr);
    const payload = await stage(bench, next);
    expect(await bench.target.digestOf(size, signal, digest)).toBe(digest);
    await bench.target.flash(...vouched(payload), signal);
    expect(bench.model.ran).toEqual(['new']);
    expect(await bench.store.flashed()).toMatchObject({ chip: 'ATmega328P', name: digest, attempts: 1 });
    expect(new Set(progress.map(({ board, step }) => `${board} ${step}`))).toEqual(
      new Set(['connecting', 'keeping', 'writing', 'starting', 'done'].map((step) => `board ${step}`)),
    );
  });

  test('can be flashed again and restored as long as the payload and its backup are stored', async () => {
    const bench = benchOf(avr);
    expect(await bench.target.keeps(digest)).toEqual({ payload: false, before: false });
    const payload = await stage(bench, next);
    expect(await bench.target.keeps(digest)).toEqual({ payload: true, before: false });
    await bench.target.flash(...vouched(payload), signal);
    expect(await bench.target.keeps(digest)).toEqual({ payload: true, before: true });
    await stage(bench, old);
    expect(await bench.target.keeps(digest)).toEqual({ payload: true, before: true });
    await writeFile(join(directory, 'boards/meter/payload-installed'), '');
    expect(await bench.target.keeps(digest)).toEqual({ payload: false, before: true });
    await writeFile(join(directory, 'boards/meter/previous.json'), '{');
    expect(await bench.target.keeps(digest)).toEqual({ payload: false, before: false });
  });

  test('is flashed without a backup on request, and becomes the next backup', async () => {
    const { board, store, model } = benchOf(avr);
    const flash = async (bytes: Uint8Array, keep?: false): Promise<void> => {
      const payload = { digest: payloadDigest(bytes), onProgress: (step: BoardProgress) => void progress.push(step) };
      const evidence = evidenceOf(payload.digest);
      await flashImage(
        { board, store, image: await asImage(bytes, 0), payload, evidence, name: 'by hand', keep },
        signal,
      );
    };
    await flash(next, false);
    expect(progress.map(({ step }) => step)).not.toContain('keeping');
    expect(Buffer.compare(model.memory, next)).toBe(0);
    expect((await store.kept())?.image).toBeUndefined();
    await flash(old, false);
    expect((await store.kept())?.image?.digest).toBe((await asImage(next, 0)).digest);
  });

  // Regression: a board whose port was missing kept its program, and the rollback reported that it could not restore it.
  test('is not touched by a rollback if its writing never began', async () => {
    const bench = benchOf(avr);
    const payload = await stage(bench, next);
    const { store } = bench;
    await store.keep({ payload: digest, read: false, image: undefined });
    await bench.target.restore(payload, evidenceOfKept, signal);
    expect(progress).toEqual([]);
  });

  // Regression: a failed update with the same file restored the program from before the operator flashed it.
  test('keeps the file that an operator flashed when an update with this file fails', async () => {
    const bench = benchOf(avr);
    const { board, store, model } = bench;
    const payload = await stage(bench, next);
    const evidence = evidenceOf(digest);
    const image = await asImage(next, 0);
    await flashImage({ board, store, image, payload, evidence, name: 'by hand', keepAs: `manual ${digest}` }, signal);
    await bench.target.flash(...vouched(payload), signal);
    await bench.target.restore(payload, evidenceOfKept, signal);
    expect(Buffer.compare(model.memory, next)).toBe(0);
  });

  // Regression: a restore wrote the whole memory, with data of the application that was older, and left added pages.
  test('is restored in the parts that the update changed, blank ones included, and in no others', async () => {
    const small = next.subarray(0, 4 * pageBytes);
    const before = Uint8Array.from(old).fill(0xff, 3 * pageBytes);
    before.fill(1, 6 * pageBytes);
    const bench = benchOf({ ...avr, programs: { old: before, new: next } });
    const payload = await stage(bench, small);
    await bench.target.flash(...vouched(payload), signal);
    bench.model.memory.fill(2, 6 * pageBytes);
    await bench.target.restore(payload, evidenceOfKept, signal);
    expect(Buffer.compare(bench.model.memory, Uint8Array.from(before).fill(2, 6 * pageBytes))).toBe(0);
  });

  // Regression: after an update whose end was not recorded, the new program was kept as the previous one.
  test('does not keep its own image as the previous one', async () => {
    const bench = benchOf(avr);
    const payload = await stage(bench, next);
    await bench.store.keep({ payload: digest, read: false, image: await asImage(old, 0) });
    await bench.target.flash(...vouched(payload), signal);
    await bench.store.keep({ payload: digest, read: false, image: await asImage(old, 0) });
    await bench.target.flash(...vouched(payload), signal);
    expect((await bench.store.kept())?.image?.digest).toBe((await asImage(old, 0)).digest);
  });

  test('rejects anything but an image during staging', async () => {
    const bench = benchOf(avr);
    await expect(stage(bench, Buffer.from(':10000000nonsense'))).rejects.toMatchObject({ exit: 'refused' });
    expect(await readdir(bench.store.directory)).toEqual(['payload.new']);
  });

  test.each([
    ['changed', (bytes: Buffer): Buffer => Buffer.from(bytes).fill(0x42, 700, 701)],
    ['cut short', (bytes: Buffer): Buffer => bytes.subarray(0, 512)],
    ['longer', (bytes: Buffer): Buffer => Buffer.concat([bytes, Buffer.of(1)])],
  ])('refuses a payload that was %s on the disk, and leaves the board alone', async (_, change) => {
    const bench = benchOf(avr);
    const payload = await stage(bench, next);
    await writeFile(bench.store.payloadPath, change(await readFile(bench.store.payloadPath)));
    await expect(bench.target.flash(...vouched(payload), signal)).rejects.toMatchObject({ code: 'payload-damaged' });
    expect(bench.model.ran).toEqual([]);
    expect(bench.port.counts['to-board']).toBe(0);
  });

  test('is not touched with evidence of another payload', async () => {
    const bench = benchOf(avr);
    const payload = await stage(bench, next);
    await expect(bench.target.flash(payload, evidenceOf(payloadDigest(old)), signal)).rejects.toThrow(
      'the evidence is of',
    );
    expect(bench.model.ran).toEqual([]);
    expect(bench.port.counts['to-board']).toBe(0);
  });

  test('is not touched where what it holds cannot be kept', async () => {
    const bench = benchOf(avr);
    const payload = await stage(bench, next);
    await mkdir(join(directory, 'boards/meter/previous.json'));
    await expect(bench.target.flash(...vouched(payload), signal)).rejects.toMatchObject({ code: 'state-unavailable' });
    expect(Buffer.compare(bench.model.memory, old)).toBe(0);
  });

  test('refuses data where its program starts, and restores a backup of anything', async () => {
    const data = new Uint8Array(size);
    const bench = benchOf({ ...avr, programs: { old: data, new: next } });
    const nothing = await stage(bench, data);
    await expect(bench.target.flash(...vouched(nothing), signal)).rejects.toMatchObject({ code: 'image-unsupported' });
    expect(bench.model.ran).toEqual(['old']);
    const payload = await stage(bench, next);
    await bench.target.flash(...vouched(payload), signal);
    await bench.target.restore(payload, evidenceOfKept, signal);
    expect(bench.model.ran).toEqual(['old', 'new', 'old']);
  });

  test('that was not flashed for this payload is not put back', async () => {
    const bench = benchOf(avr);
    const payload = await stage(bench, next);
    await bench.target.restore(payload, evidenceOfKept, signal);
    expect(bench.port.counts['to-board']).toBe(0);
  });

  test('is not given an image whose backup was damaged on the disk', async () => {
    const bench = benchOf(avr);
    const payload = await stage(bench, next);
    await bench.target.flash(...vouched(payload), signal);
    const path = join(directory, 'boards/meter/previous.json');
    const text = await readFile(path, 'utf8');
    await writeFile(path, text.replace(/"base64":"..../, '"base64":"AAAA'));
    await expect(bench.target.restore(payload, evidenceOfKept, signal)).rejects.toMatchObject({
      code: 'backup-damaged',
    });
    expect(bench.model.ran).toEqual(['new']);
  });
});

describe.each([
  ['an AVR with Optiboot', avr, pages + 2],
  ['an STM32', stm32Subject, 9],
] as const)('power lost at any block of %s', (_, subject, writes) => {
  const cuts = [true, false].flatMap((torn) => Array.from({ length: writes }, (__, cut) => ({ cut, torn })));

  async function cutFlash(bench: Bench, cut: number, torn: boolean): Promise<BoardPayload> {
    const payload = await stage(bench, subject.programs.new);
    bench.model.dieAtWrite(cut, torn);
    expect(['done', 'board-timeout']).toContain(await endOf(bench.target.flash(...vouched(payload), signal)));
    bench.model.power(bench.port.clock.monotonicMs());
    expect(bench.model.ran).not.toContain('broken');
    return payload;
  }

  /** `whole old`: the memory has all of it, and it was started last. */
  function running({ model }: Bench): string {
    const whole = (['old', 'new'] as const).find((name) => Buffer.compare(model.memory, subject.programs[name]) === 0);
    return `whole ${whole ?? 'nothing'}, started ${model.ran.at(-1) ?? 'nothing'}`;
  }

  test('the first backup stays, the flash operation resumes, and can still be undone', async () => {
    for (const { cut, torn } of cuts) {
      const bench = benchOf(subject);
      const payload = await cutFlash(bench, cut, torn);
      const [first] = (await bench.store.kept())?.image?.segments ?? [];
      expect(Buffer.compare(first?.bytes ?? Buffer.alloc(0), subject.programs.old)).toBe(0);
      await bench.target.flash(...vouched(payload), signal);
      expect(running(bench)).toBe('whole new, started new');
      await bench.target.flash(...vouched(payload), signal);
      await bench.target.restore(payload, evidenceOfKept, signal);
      expect(running(bench)).toBe('whole old, started old');
      await rm(join(directory, 'boards'), { recursive: true });
    }
  });

  test('the backup is restored', async () => {
    for (const { cut, torn } of cuts) {
      const bench = benchOf(subject);
      const payload = await cutFlash(bench, cut, torn);
      await bench.target.restore(payload, evidenceOfKept, signal);
      expect(running(bench)).toBe('whole old, started old');
      await rm(join(directory, 'boards'), { recursive: true });
    }
  });

  test('even where it is lost again while that is put back', async () => {
    for (const { cut, torn } of cuts) {
      const bench = benchOf(subject);
      const payload = await cutFlash(bench, 2, false);
      bench.model.dieAtWrite(cut, torn);
      expect(['done', 'board-timeout']).toContain(await endOf(bench.target.restore(payload, evidenceOfKept, signal)));
      bench.model.power(bench.port.clock.monotonicMs());
      await bench.target.restore(payload, evidenceOfKept, signal);
      expect(running(bench)).toBe('whole old, started old');
      await rm(join(directory, 'boards'), { recursive: true });
    }
  });
});

test('an agent that is stopped at any step continues with the first backup', async () => {
  const stops = 24;
  let stopped = 0;
  for (let step = 1; step <= stops; step += 1) {
    const bench = benchOf(avr);
    const staged = await stage(bench, next);
    const stop = new AbortController();
    let steps = 0;
    const onProgress = (): void => void ((steps += 1) === step && stop.abort(new Stopped()));
    const end = await endOf(bench.target.flash(...vouched({ ...staged, onProgress }), stop.signal));
    expect(['done', 'killed']).toContain(end);
    if (end === 'killed') stopped += 1;
    await bench.target.flash(...vouched(staged), signal);
    expect(bench.model.ran.at(-1)).toBe('new');
    await bench.target.restore(staged, evidenceOfKept, signal);
    expect(Buffer.compare(bench.model.memory, old)).toBe(0);
    await rm(join(directory, 'boards'), { recursive: true });
  }
  expect(stopped).toBeGreaterThan(stops / 2);
});

describe('a board that was found parked', () => {
  test('rolls back to the last flashed program after any number of repeated flash operations', async () => {
    const bench = benchOf(avr);
    const first = await stage(bench, old);
    await bench.target.flash(...vouched(first), signal);
    bench.model.memory.fill(0xff, 0, pageBytes).set(parked);
    const second = await stage(bench, next);
    await bench.target.flash(...vouched(second), signal);
    await bench.target.flash(...vouched(second), signal);
    await bench.target.restore(second, evidenceOfKept, signal);
    expect(Buffer.compare(bench.model.memory, old)).toBe(0);
    expect(bench.model.ran.at(-1)).toBe('old');
  });
});

describe('a board that cannot be read back', () => {
  test('rolls back to the program that the agent flashed before', async () => {
    const bench = benchOf(espSubject);
    const { programs } = espSubject;
    await bench.target.flash(...vouched(await stage(bench, programs.old)), signal);
    const second = await stage(bench, programs.new);
    await bench.target.flash(...vouched(second), signal);
    expect(bench.model.ran.at(-1)).toBe('new');
    await bench.target.restore(second, evidenceOfKept, signal);
    expect(bench.model.ran.at(-1)).toBe('old');
  });

  test('reports that it keeps the new image where the agent never flashed it before', async () => {
    const bench = benchOf(espSubject);
    const payload = await stage(bench, espSubject.programs.new);
    await bench.target.flash(...vouched(payload), signal);
    expect(await bench.target.keeps(payload.digest)).toEqual({ payload: true, before: false });
    const restored = bench.target.restore(payload, evidenceOfKept, signal);
    await expect(restored).rejects.toMatchObject({ code: 'board-not-restorable' });
    expect(bench.model.ran).toEqual(['new']);
  });
});
