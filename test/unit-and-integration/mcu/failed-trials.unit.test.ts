import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, describe, expect, test } from 'vitest';

import { BoardStore, payloadDigest } from '../../../src/mcu/flash/board-store.ts';
import { readImage } from '../../../src/mcu/images/read-image.ts';
import { createMcuTarget, flashImage, recoverBoard, restoreImage } from '../../../src/mcu/mcu-target.ts';
import { stk500v1 } from '../../../src/mcu/protocols/stk500v1.ts';
import { evidenceOfKept } from '../../../src/update/evidence.ts';
import type { BoardPayload, McuTarget, Verified } from '../../../src/update/ports.ts';
import { OptibootModel } from '../../fakes/boards/models/avr-model.ts';
import { folderUntilTestEnds } from '../../until-test-ends.ts';
import { program, rigOf } from './protocols/fault-matrix.ts';

const signal = new AbortController().signal;
const pageBytes = 128;
const size = 8 * pageBytes;
const [factory, first, second, third] = [1, 2, 3, 4].map((seed) => program(size, seed)) as [
  Buffer,
  Buffer,
  Buffer,
  Buffer,
];

let directory: string;

beforeEach(() => {
  directory = folderUntilTestEnds();
});

interface Bench extends ReturnType<typeof rigOf> {
  readonly store: BoardStore;
  readonly target: McuTarget;
}

function benchOf(): Bench {
  const rig = rigOf({
    protocol: () => stk500v1({ bootloaderBytes: 0x8000 - size }),
    model: (programs) => new OptibootModel({ programs, pageBytes }),
    programs: { old: factory, new: first },
    start: 0,
    baud: 115_200,
    mayBlankStart: true,
    obeysNoise: true,
  });
  const store = new BoardStore(join(directory, 'boards/meter'));
  return { ...rig, store, target: createMcuTarget({ board: rig.board, port: '/dev/null', store, readImage: imageOf }) };
}

async function imageOf(file: Uint8Array): Promise<ReturnType<typeof readImage>> {
  return readImage(file, { address: 0, isRaw: true });
}

async function stage({ target }: Bench, bytes: Uint8Array): Promise<BoardPayload> {
  const payload = { fileName: 'meter.bin', target: { name: 'meter' }, order: undefined };
  await using writer = await target.openFile({ payload, sizeBytes: bytes.byteLength, resumeAt: undefined }, signal);
  await writer.write(bytes);
  return { digest: (await writer.finish(signal)).digest, onProgress: () => {} };
}

function evidenceOf(digest: string): Verified {
  return evidenceOfKept({ target: 'meter', recorded: digest, found: digest });
}

async function flash({ target }: Bench, payload: BoardPayload, stop = signal): Promise<void> {
  await target.flash(payload, evidenceOf(payload.digest), stop);
}

/** The board runs the second of two installed programs. */
async function installedTwice(): Promise<readonly [Bench, BoardPayload]> {
  const bench = benchOf();
  await flash(bench, await stage(bench, first));
  const installed = await stage(bench, second);
  await flash(bench, installed);
  return [bench, installed];
}

/** Returns the name of the program in the memory. */
function held({ model }: Bench): string {
  const programs = { factory, first, second, third };
  const found = Object.entries(programs).find(([, bytes]) => Buffer.compare(model.memory, bytes) === 0);
  return found?.[0] ?? 'another program';
}

/** The result of a rollback to the version before the installed one that fails itself, and succeeds when it is repeated. */
const done = { kept: { payload: true, before: true }, held: ['second', 'first', 'second', 'first'] };

async function rollBack(bench: Bench, installed: BoardPayload): Promise<typeof done> {
  const { target } = bench;
  const kept = await target.keeps(installed.digest);
  const programs = [held(bench)];
  await target.restore(installed, evidenceOfKept, signal);
  programs.push(held(bench));
  await flash(bench, installed);
  programs.push(held(bench));
  for (let times = 0; times < 2; times += 1) await target.restore(installed, evidenceOfKept, signal);
  return { kept, held: [...programs, held(bench)] };
}

// Regression: a failed update replaced the only backup, so the installed version could no longer be rolled back.
describe('the version before the installed one can be rolled back to', () => {
  test('after any number of failed trials', async () => {
    const [bench, installed] = await installedTwice();
    for (const bytes of [third, factory, third]) {
      const trial = await stage(bench, bytes);
      await flash(bench, trial);
      await bench.target.restore(trial, evidenceOfKept, signal);
    }
    expect(await rollBack(bench, installed)).toEqual(done);
  });

  test('after a payload was staged and not flashed', async () => {
    const [bench, installed] = await installedTwice();
    await stage(bench, third);
    await stage(bench, factory);
    expect(await rollBack(bench, installed)).toEqual(done);
  });

  test('after a board that could not be reached, in an update and by hand', async () => {
    const [bench, installed] = await installedTwice();
    const trial = await stage(bench, third);
    const board = { ...bench.board, openLine: async () => Promise.reject(new Error('no port')) };
    const cut = createMcuTarget({ board, port: '/dev/null', store: bench.store, readImage: imageOf });
    await expect(flash({ ...bench, target: cut }, trial)).rejects.toThrow('no port');
    await cut.restore(trial, evidenceOfKept, signal);
    const payload = { ...trial, digest: payloadDigest(third) };
    const byHand = { payload, evidence: evidenceOf(payload.digest), name: 'by hand', keepAs: 'manual' };
    const image = await imageOf(third);
    await expect(flashImage({ board, store: bench.store, image, ...byHand }, signal)).rejects.toThrow('no port');
    expect(await rollBack(bench, installed)).toEqual(done);
  });

  test('after a flash by hand that was cut and undone', async () => {
    const [bench, installed] = await installedTwice();
    const { board, store, model } = bench;
    const payload = { digest: payloadDigest(third), onProgress: () => {} };
    const byHand = { payload, evidence: evidenceOf(payload.digest), name: 'by hand', keepAs: 'manual' };
    model.dieAtWrite(3, false);
    const flashing = flashImage({ board, store, image: await imageOf(third), ...byHand }, signal);
    await expect(flashing).rejects.toMatchObject({ code: 'board-timeout' });
    model.power(bench.port.clock.monotonicMs());
    const writing = await store.writing();
    if (writing === undefined || writing === 'unreadable') throw new Error('no write was interrupted');
    await store.beginWriting({ ...writing, begun: 5 });
    expect(await recoverBoard({ board, store, onProgress: () => {}, vouch: evidenceOfKept }, signal)).toBe('put back');
    expect(await rollBack(bench, installed)).toEqual(done);
  });

  test('after a trial that was stopped or lost its power at steps of all kinds', async () => {
    for (let step = 1, ended = false; !ended; step += 3) {
      const [bench, installed] = await installedTwice();
      const trial = await stage(bench, third);
      const stop = new AbortController();
      let steps = 0;
      const onProgress = (): void => void ((steps += 1) === step && stop.abort(new Error('stopped')));
      ended = await flash(bench, { ...trial, onProgress }, stop.signal).then(
        () => true,
        () => false,
      );
      if (!ended && step % 2 === 0) bench.model.power(bench.port.clock.monotonicMs());
      await bench.target.restore(trial, evidenceOfKept, signal);
      await bench.target.restore(trial, evidenceOfKept, signal);
      expect(await rollBack(bench, installed)).toEqual(done);
      await rm(join(directory, 'boards'), { recursive: true });
    }
  });

  test('after a power loss between setting the backup aside and writing the new one', async () => {
    const [bench, installed] = await installedTwice();
    const trial = await stage(bench, third);
    await bench.store.setBackupAside();
    await bench.target.restore(trial, evidenceOfKept, signal);
    expect(await rollBack(bench, installed)).toEqual(done);
  });

  test('after a power loss between setting the payload aside and naming the new one', async () => {
    const [bench, installed] = await installedTwice();
    await rename(bench.store.payloadPath, join(bench.store.directory, 'payload-installed'));
    expect(await rollBack(bench, installed)).toEqual(done);
  });
});

test('a trial that is kept is rolled back to the program before it, and no further', async () => {
  const [bench] = await installedTwice();
  const trial = await stage(bench, third);
  await flash(bench, trial);
  expect(await bench.target.keeps(trial.digest)).toEqual({ payload: true, before: true });
  await bench.target.restore(trial, evidenceOfKept, signal);
  expect(held(bench)).toBe('second');
});

test('a board that an operator flashed since is not rolled back to a version', async () => {
  const [bench, installed] = await installedTwice();
  const { board, store } = bench;
  const payload = { digest: payloadDigest(third), onProgress: () => {} };
  const byHand = { payload, evidence: evidenceOf(payload.digest), name: 'by hand', keepAs: 'manual' };
  await flashImage({ board, store, image: await imageOf(third), ...byHand }, signal);
  expect(await bench.target.keeps(installed.digest)).toMatchObject({ before: false });
});

// Regression: only the parts that the update changed were restored, also to a board that held nothing, or another program.
describe('a restore yields the whole former program', () => {
  const long = program(size, 5).fill(0xff, 7 * pageBytes);
  const short = second.subarray(0, 2 * pageBytes);

  async function flashByHand(bench: Bench, bytes: Uint8Array, keep?: false): Promise<void> {
    const { board, store } = bench;
    const payload = { digest: payloadDigest(bytes), onProgress: () => {} };
    const byHand = {
      payload,
      evidence: evidenceOf(payload.digest),
      name: 'by hand',
      keepAs: `manual ${payload.digest}`,
    };
    await flashImage({ board, store, image: await imageOf(bytes), ...byHand, keep }, signal);
  }

  async function restoreByHand({ board, store }: Bench): Promise<void> {
    await restoreImage({ board, store, onProgress: () => {}, vouch: evidenceOfKept }, await store.kept(), signal);
  }

  /** The long program, and a short one flashed over it. */
  async function shortOverLong(): Promise<Bench> {
    const bench = benchOf();
    bench.model.memory.set(long);
    await flashByHand(bench, short);
    return bench;
  }

  /** True if the memory begins with all of the program. */
  function holdsLong({ model }: Bench): boolean {
    return Buffer.compare(model.memory.subarray(0, 7 * pageBytes), long.subarray(0, 7 * pageBytes)) === 0;
  }

  test.each([
    ['blank', new Uint8Array(size).fill(0xff)],
    ['of another program', factory],
  ])('to a spare board that is %s', async (_, contents) => {
    const bench = await shortOverLong();
    bench.model.memory.set(contents);
    await restoreByHand(bench);
    expect(holdsLong(bench)).toBe(true);
  });

  test('to a spare board that got the short program again', async () => {
    const bench = await shortOverLong();
    bench.model.memory.fill(0xff);
    await flashByHand(bench, short);
    await restoreByHand(bench);
    expect(holdsLong(bench)).toBe(true);
  });

  test.each([
    ['without a backup', false, long],
    ['on a blank spare board', undefined, new Uint8Array(size).fill(0xff)],
  ] as const)('after a restore, and a flash %s', async (_, keep, contents) => {
    const bench = await shortOverLong();
    await restoreByHand(bench);
    expect(holdsLong(bench)).toBe(true);
    bench.model.memory.set(contents);
    await flashByHand(bench, third.subarray(0, 3 * pageBytes), keep);
    await restoreByHand(bench);
    expect(holdsLong(bench)).toBe(true);
  });

  // Regression: a damaged address changed a page outside of the new program, and the restore did not look there.
  test('after a flash whose damaged address reached a page outside of the new program', async () => {
    const bench = await shortOverLong();
    bench.model.memory.copyWithin(5 * pageBytes, 0, pageBytes);
    await restoreByHand(bench);
    expect(holdsLong(bench)).toBe(true);
  });

  test('after a first update that failed, and that is tried again on another board', async () => {
    const bench = benchOf();
    bench.model.memory.set(factory);
    const trial = await stage(bench, short);
    await flash(bench, trial);
    await bench.target.restore(trial, evidenceOfKept, signal);
    expect(held(bench)).toBe('factory');
    bench.model.memory.set(long);
    await flash(bench, trial);
    await bench.target.restore(trial, evidenceOfKept, signal);
    expect(Buffer.compare(bench.model.memory, long)).toBe(0);
  });
});

// Regression: the program of an ATmega328P was written into an ATmega644P that had taken its place.
test('a backup is not restored to another chip', async () => {
  const [bench, installed] = await installedTwice();
  const kept = await bench.store.kept();
  if (kept === undefined) throw new Error('no backup was kept');
  expect(kept.chip).toBe('ATmega328P');
  await bench.store.keep({ ...kept, chip: 'ATmega644P' });
  await expect(bench.target.restore(installed, evidenceOfKept, signal)).rejects.toMatchObject({
    code: 'board-changed',
    message: 'board: ATmega328P answers, and the image is of ATmega644P',
  });
  expect(held(bench)).toBe('second');
});

test('an interrupted write is not finished on another board', async () => {
  const [bench] = await installedTwice();
  const { board, store, model } = bench;
  const trial = await stage(bench, third);
  model.dieAtWrite(3, false);
  await expect(flash(bench, trial)).rejects.toMatchObject({ code: 'board-timeout' });
  model.power(bench.port.clock.monotonicMs());
  const writing = await store.writing();
  if (writing === undefined || writing === 'unreadable') throw new Error('no write was interrupted');
  const job = { board, store, onProgress: () => {}, vouch: evidenceOfKept };
  const parked = Buffer.from(model.memory);
  // Regression: the agent finished the write on an intact board that had been plugged in instead.
  model.memory.set(factory);
  await expect(recoverBoard(job, signal)).rejects.toMatchObject({ code: 'board-changed' });
  expect([held(bench), model.ran.at(-1)]).toEqual(['factory', 'old']);
  // Regression: the rollback of the update wrote the previous program to it, and the mark of the other board was lost.
  await expect(bench.target.restore(trial, evidenceOfKept, signal)).rejects.toMatchObject({ code: 'board-changed' });
  expect([held(bench), await store.writing()]).toEqual(['factory', writing]);
  // Regression: a board with all of the new program was taken for another one when the write was undone.
  model.memory.set(third);
  await store.beginWriting({ ...writing, begun: 5 });
  await recoverBoard(job, signal);
  expect(held(bench)).toBe('second');
  await store.beginWriting(writing);
  model.memory.set(parked);
  await store.beginWriting({ ...writing, chip: 'ATmega644P' });
  await expect(recoverBoard(job, signal)).rejects.toMatchObject({ code: 'board-changed' });
  await store.beginWriting(writing);
  await recoverBoard(job, signal);
  expect(held(bench)).toBe('third');
});

// Regression: the board kept the new program, and the rollback was reported as done.
test.each(['missing', 'damaged'])('a rollback restores a board whose record is %s', async (state) => {
  const [bench, installed] = await installedTwice();
  const record = join(directory, 'boards/meter/flashed.json');
  await (state === 'missing' ? rm(record) : writeFile(record, '{'));
  await bench.target.restore(installed, evidenceOfKept, signal);
  expect(held(bench)).toBe('first');
});
