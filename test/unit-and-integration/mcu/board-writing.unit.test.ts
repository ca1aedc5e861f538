import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, describe, expect, test } from 'vitest';

import { partialFlashAdvice } from '../../../src/control/partial-flash.ts';
import { LocalBoards } from '../../../src/daemon/boards.ts';
import type { LocalBoardsDeps } from '../../../src/daemon/boards.ts';
import { BoardStore } from '../../../src/mcu/flash/board-store.ts';
import { readImage } from '../../../src/mcu/images/read-image.ts';
import { flashImage, recoverBoard, restoreImage } from '../../../src/mcu/mcu-target.ts';
import { stk500v1 } from '../../../src/mcu/protocols/stk500v1.ts';
import { SerialError } from '../../../src/serial/errors.ts';
import { silentLog } from '../../../src/system/log/log.ts';
import { evidenceOfFile, evidenceOfKept } from '../../../src/update/evidence.ts';
import type { BoardProgress } from '../../../src/update/ports.ts';
import { OptibootModel } from '../../fakes/boards/models/avr-model.ts';
import { folderUntilTestEnds } from '../../until-test-ends.ts';
import { espSubject } from './protocols/esp-subject.ts';
import { program, rigOf } from './protocols/fault-matrix.ts';
import type { Subject } from './protocols/fault-matrix.ts';

const signal = new AbortController().signal;
const pageBytes = 128;
const pages = 8;
const size = pages * pageBytes;
const programs = { old: program(size, 1), new: program(size, 2) };
const third = program(size, 3);
type Name = keyof typeof programs | 'third';

const avr: Subject = {
  protocol: () => stk500v1({ bootloaderBytes: 0x8000 - size }),
  model: (known) => new OptibootModel({ programs: known, pageBytes }),
  programs,
  start: 0,
  baud: 115_200,
  mayBlankStart: true,
  obeysNoise: true,
};

let directory: string;

beforeEach(() => {
  directory = folderUntilTestEnds();
});

type Bench = ReturnType<typeof rigOf> & { readonly store: BoardStore; readonly subject: Subject };

function benchOf(subject: Subject = avr): Bench {
  const rig = rigOf(subject);
  return { ...rig, subject, store: new BoardStore(join(directory, `boards/${Math.random()}`)) };
}

class Stopped extends Error {
  readonly code = 'killed';
}

interface Stop {
  /** At which progress, from the first on. */
  readonly atStep: number;
  /** The write at which the chip loses its power. */
  readonly dieAtWrite?: number;
}

/** Flashes a board as `agent mcu flash` does. Resolves with `done`, or the code of the error. */
async function flashByHand(bench: Bench, name: Name, stop?: Stop): Promise<string> {
  const { board, store, subject, model } = bench;
  const ending = new AbortController();
  let steps = 0;
  const onProgress = (_: BoardProgress): void => {
    steps += 1;
    if (steps === stop?.atStep) ending.abort(new Stopped());
  };
  if (stop?.dieAtWrite !== undefined) model.dieAtWrite(stop.dieAtWrite, true);
  const image = readImage(name === 'third' ? third : subject.programs[name], { address: subject.start, isRaw: true });
  const payload = { digest: `sha256:${name}`, onProgress };
  const evidence = evidenceOfFile(payload.digest, { isSigned: false, allowUnsigned: true });
  return endOf(flashImage({ board, store, image, payload, evidence, name: `${name}.hex` }, ending.signal));
}

async function heal({ board, store }: Bench): Promise<string | undefined> {
  return recoverBoard({ board, store, onProgress: () => {}, vouch: evidenceOfKept }, signal);
}

async function restore({ board, store }: Bench): Promise<void> {
  await restoreImage({ board, store, onProgress: () => {}, vouch: evidenceOfKept }, await store.kept(), signal);
}

async function endOf(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => 'done',
    (error: unknown) => (error as Stopped).code,
  );
}

function holds({ model, subject }: Bench): string {
  const found = Object.entries({ ...subject.programs, third }).find(
    ([, bytes]) => Buffer.compare(model.memory, bytes) === 0,
  );
  return found?.[0] ?? 'nothing whole';
}

/** The chip has power again, after it lost it. */
function power({ model, port }: Bench): void {
  model.power(port.clock.monotonicMs());
}

describe('a flash by hand that is stopped at any step', () => {
  const lastStep = 24;

  test('leaves either a whole program or the mark that the board is being written', async () => {
    let marked = 0;
    for (let atStep = 1; atStep <= lastStep; atStep += 1) {
      const bench = benchOf();
      await flashByHand(bench, 'new', { atStep });
      const isMarked = (await bench.store.writing()) !== undefined;
      expect(isMarked || holds(bench) !== 'nothing whole', `step ${atStep}`).toBe(true);
      marked += Number(isMarked);
    }
    expect(marked).toBeGreaterThan(pages / 2);
  });

  test('is completed by the agent, which records the running program', async () => {
    for (let atStep = 1; atStep <= lastStep; atStep += 1) {
      const bench = benchOf();
      await flashByHand(bench, 'new', { atStep });
      const wasCut = (await bench.store.writing()) !== undefined;
      expect(await heal(bench), `step ${atStep}`).toBe(wasCut ? 'new.hex' : undefined);
      expect(['old', 'new']).toContain(holds(bench));
      expect(wasCut ? bench.model.ran.at(-1) : 'new').toBe('new');
      expect(await bench.store.writing()).toBeUndefined();
    }
  });

  test('keeps the board’s backup, even if another program is flashed instead', async () => {
    for (let atStep = 1; atStep <= lastStep; atStep += 1) {
      const bench = benchOf();
      const wasCut = (await flashByHand(bench, 'new', { atStep })) === 'killed';
      if (!wasCut) continue;
      await flashByHand(bench, 'third');
      expect(holds(bench)).toBe('third');
      await restore(bench);
      const stood = (await bench.store.flashed())?.name === 'put back' ? holds(bench) : 'nothing is kept';
      expect(stood, `step ${atStep}`).toBe('old');
    }
  });

  test('before the first byte leaves the application running', async () => {
    const bench = benchOf();
    expect(await flashByHand(bench, 'new', { atStep: 3 })).toBe('killed');
    expect(await bench.store.writing()).toBeUndefined();
    expect(bench.model.ran.at(-1)).toBe('old');
  });
});

describe('power lost at any block of a flash by hand', () => {
  test('leaves the mark, and the board is brought back to life', async () => {
    for (let dieAtWrite = 0; dieAtWrite < pages; dieAtWrite += 1) {
      const bench = benchOf();
      expect(await flashByHand(bench, 'new', { atStep: 0, dieAtWrite })).toBe('board-timeout');
      power(bench);
      expect(await bench.store.writing()).toMatchObject({ name: 'new.hex', begun: 1 });
      expect(await heal(bench)).toBe('new.hex');
      expect(holds(bench)).toBe('new');
    }
  });

  test('after repeated failures restores the backup, and at last leaves the board to an operator', async () => {
    const bench = benchOf();
    await flashByHand(bench, 'new', { atStep: 0, dieAtWrite: 2 });
    power(bench);
    const wanted: unknown[] = [];
    for (let round = 0; round < 12; round += 1) {
      bench.model.dieAtWrite(0, true);
      await endOf(heal(bench));
      power(bench);
      const writing = await bench.store.writing();
      wanted.push(writing === 'unreadable' ? writing : writing?.name);
    }
    expect(wanted.slice(0, 4)).toEqual(Array(4).fill('new.hex'));
    expect(new Set(wanted.slice(4))).toEqual(new Set(['put back']));
    const before = Buffer.from(bench.model.memory);
    await expect(heal(bench)).rejects.toMatchObject({ code: 'board-half-written' });
    expect(Buffer.compare(bench.model.memory, before)).toBe(0);
  });
});

// Regression: the daemon checked every hour for such a board, and every report promised that it would be finished.
test.each([
  ['is still finished automatically', async () => {}, false],
  ['needs an operator after ten attempts', stopRepairing, true],
  ['needs an operator if neither mark nor backup can be read', damageRecords, true],
])('a board whose write was interrupted %s', async (_, change, needsOperator) => {
  const bench = benchOf();
  await flashByHand(bench, 'new', { atStep: 0, dieAtWrite: 2 });
  await change(bench);
  const targets = [{ kind: 'mcu', name: 'meter', port: '/dev/meter', protocol: 'stk500v1' }];
  const deps = { config: { targets }, boards: new Map([['meter', bench]]) } as unknown as LocalBoardsDeps;
  const boards = new LocalBoards(deps);
  expect(await boards.isHalfWritten()).toBe(!needsOperator);
  const [report] = await boards.list();
  expect(report?.writing?.needsOperator).toBe(needsOperator);
  const advice = partialFlashAdvice({ name: 'meter', writing: report?.writing });
  expect(advice.includes('automatically')).toBe(!needsOperator);
});

async function stopRepairing({ store }: Bench): Promise<void> {
  const writing = await store.writing();
  if (writing === undefined || writing === 'unreadable') throw new Error('no write was interrupted');
  await store.beginWriting({ ...writing, begun: 10 });
}

async function damageRecords({ store }: Bench): Promise<void> {
  for (const name of ['writing.json', 'previous.json']) await writeFile(join(store.directory, name), '{');
}

describe('the mark of a board that is being written', () => {
  test('is not made where nothing has to be written', async () => {
    const bench = benchOf();
    expect(await flashByHand(bench, 'old')).toBe('done');
    expect(await bench.store.writing()).toBeUndefined();
  });

  test('is skipped if the board does not respond', async () => {
    const openLine = async (): Promise<never> => {
      throw new SerialError('port-missing', 'nothing is plugged in');
    };
    const plugged = benchOf();
    const bench = { ...plugged, board: { ...plugged.board, openLine } };
    expect(await flashByHand(bench, 'new')).toBe('port-missing');
    expect(await bench.store.writing()).toBeUndefined();
  });

  test('restores the backup after an unreadable mark', async () => {
    const bench = benchOf();
    await flashByHand(bench, 'new', { atStep: 0, dieAtWrite: 3 });
    power(bench);
    await writeFile(join(bench.store.directory, 'writing.json'), '{"name":');
    expect(await bench.store.writing()).toBe('unreadable');
    expect(await heal(bench)).toBe('put back');
    expect(holds(bench)).toBe('old');
  });

  test('keeps a board whose loader cannot read from being forgotten, too', async () => {
    const bench = benchOf(espSubject);
    await flashByHand(bench, 'old');
    expect(await flashByHand(bench, 'new', { atStep: 0, dieAtWrite: 1 })).not.toBe('done');
    power(bench);
    expect(await bench.store.writing()).toMatchObject({ name: 'new.hex' });
    expect(await heal(bench)).toBe('new.hex');
    await restore(bench);
    expect(bench.model.ran.at(-1)).toBe('old');
  });
});

test('restores only a backup that matches its stored digest', async () => {
  const bench = benchOf();
  await flashByHand(bench, 'old');
  const { board, store } = bench;
  const image = readImage(bench.subject.programs.new, { address: bench.subject.start, isRaw: true });
  const job = { board, store, onProgress: () => {}, vouch: evidenceOfKept };
  const other = { payload: 'another', read: true, image: { ...image, digest: 'sha256:another' } };
  await expect(restoreImage(job, other, signal)).rejects.toMatchObject({ code: 'not-verified' });
  expect(bench.model.ran).toEqual(['old']);
});

// Regression: as long as an update waited for a window or a manual reboot, a board that an operator had flashed ran
// nothing.
describe('during an update, the agent', () => {
  const cut = { atStep: 21 };

  async function afterHealing(phase: object): Promise<string> {
    const bench = benchOf();
    await flashByHand(bench, 'new', cut);
    expect(holds(bench)).toBe('nothing whole');
    const boards = new Map([['meter', bench]]);
    const deps = { journal: { state: { phase } }, boards, log: silentLog } as unknown as LocalBoardsDeps;
    await new LocalBoards(deps).recover(() => {}, signal);
    return holds(bench);
  }

  test.each([
    { kind: 'idle' },
    { kind: 'staging' },
    { kind: 'staged' },
    { kind: 'trial', boards: {} },
    { kind: 'trial', boards: { relay: 'touched' } },
    { kind: 'rolling-back', boards: { relay: 'flashed' } },
  ])('finishes the write of a board that it has not touched: %o', async (phase) => {
    expect(await afterHealing(phase)).toBe('new');
  });

  test.each([
    { kind: 'trial', boards: { meter: 'touched' } },
    { kind: 'rolling-back', boards: { meter: 'touched' } },
    { kind: 'lost' },
  ])('leaves to it the board that it has touched, or may have: %o', async (phase) => {
    expect(await afterHealing(phase)).toBe('nothing whole');
  });
});
