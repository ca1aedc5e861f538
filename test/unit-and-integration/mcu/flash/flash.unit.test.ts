import { describe, expect, test } from 'vitest';

import { flash, planFlash, probe } from '../../../../src/mcu/flash/flash.ts';
import type { FlashProgress } from '../../../../src/mcu/flash/flash.ts';
import { imageOfMemory, makeImage } from '../../../../src/mcu/images/image.ts';
import type { Image } from '../../../../src/mcu/images/image.ts';
import { stk500v1 } from '../../../../src/mcu/protocols/stk500v1.ts';
import { stm32 } from '../../../../src/mcu/protocols/stm32/stm32.ts';
import { OptibootModel } from '../../../fakes/boards/models/avr-model.ts';
import { Stm32Model } from '../../../fakes/boards/models/stm32-model.ts';
import { VirtualPort } from '../../../fakes/boards/models/virtual-line.ts';
import type { Fault } from '../../../fakes/boards/models/virtual-line.ts';
import { readBack } from '../../../fakes/boards/read-back.ts';
import { program, rigOf } from '../protocols/fault-matrix.ts';
import type { Subject } from '../protocols/fault-matrix.ts';

const signal = new AbortController().signal;
const pageBytes = 128;
const pages = 100;
const bootloaderBytes = 0x8000 - pages * pageBytes;

/** An ATmega328P with room for 100 pages, so that a backup is quick. */
function uno(old: Uint8Array, next = other): ReturnType<typeof rigOf> & { readonly model: OptibootModel } {
  const programs = { old, new: next };
  const model = new OptibootModel({ programs, pageBytes });
  const subject: Subject = {
    protocol: () => stk500v1({ bootloaderBytes }),
    model: () => model,
    programs,
    start: 0,
    baud: 115_200,
    mayBlankStart: true,
    obeysNoise: true,
  };
  return { ...rigOf(subject), model };
}

function imageAt(bytes: Uint8Array, address = 0): Image {
  return makeImage('raw', [{ address, bytes }]);
}

const size = pages * pageBytes;
const old = program(size, 1);
const other = program(size, 2);
const changed = Uint8Array.from(old);
changed[50 * pageBytes + 3] = 0x42;

describe('a flash', () => {
  test('writes the pages that differ, and the first one, which was parked', async () => {
    const { model, board } = uno(old, changed);
    const report = await flash({ image: imageAt(changed) }, board, signal);
    expect(report).toMatchObject({ unitsTotal: pages, unitsWritten: 2, known: 'read-back', repeated: 0, resets: 1 });
    expect(model.ran).toEqual(['new']);
  });

  test('takes half the time of a full one, or less, where 1 % differs', async () => {
    const full = uno(old, other);
    await flash({ image: imageAt(other) }, full.board, signal);
    const small = uno(old, changed);
    await flash({ image: imageAt(changed) }, small.board, signal);
    expect(small.port.clock.monotonicMs()).toBeLessThan(full.port.clock.monotonicMs() / 2);
  });

  test('is right whatever the guess about what is there, and quicker with a good one', async () => {
    const lasting: number[] = [];
    for (const expected of [imageAt(old), imageAt(other), imageAt(changed)]) {
      const { model, port, board } = uno(old, changed);
      await flash({ image: imageAt(changed), expected }, board, signal);
      expect(model.ran).toEqual(['new']);
      lasting.push(port.clock.monotonicMs());
    }
    const [good = 0, wrong = 0] = lasting;
    expect(good).toBeLessThan(wrong);
  });

  test('stores a backup before any change, and can restore it', async () => {
    const { model, board } = uno(old, other);
    const kept: { readonly image: Image | undefined; readonly memory: Buffer }[] = [];
    const keep = async (image: Image | undefined): Promise<void> =>
      void kept.push({ image, memory: Buffer.from(model.memory) });
    await flash({ image: imageAt(other), keep }, board, signal);
    expect(kept.map(({ memory }) => Buffer.compare(memory, old))).toEqual([0]);
    await flash({ image: kept[0]?.image ?? imageAt(other) }, board, signal);
    expect(model.ran).toEqual(['new', 'old']);
  });

  test('stores no backup of an interrupted flash operation', async () => {
    const { model, port, board } = uno(old, other);
    model.dieAtWrite(20, false);
    await expect(flash({ image: imageAt(other) }, board, signal)).rejects.toMatchObject({ code: 'board-timeout' });
    model.power(port.clock.monotonicMs());
    const kept: (Image | undefined)[] = [];
    await flash({ image: imageAt(other), keep: async (image) => void kept.push(image) }, board, signal);
    expect(kept).toEqual([undefined]);
    expect(model.ran).toEqual(['parked', 'new']);
  });

  test('that cannot be kept changes nothing', async () => {
    const { model, board } = uno(old, other);
    const full = new Error('disk full');
    const keep = async (): Promise<void> => Promise.reject(full);
    await expect(flash({ image: imageAt(other), keep }, board, signal)).rejects.toBe(full);
    expect(Buffer.compare(model.memory, old)).toBe(0);
  });

  test.each([
    ['image-overwrites-bootloader', imageAt(Uint8Array.of(1), size)],
    ['image-outside-chip', imageAt(Uint8Array.of(1), 0x8000)],
    ['image-wrong-chip', { ...imageAt(other), madeFor: { kind: 'elf-machine', machine: 40 } } as const],
  ])('of an unfit image is refused as %s, and the application runs on', async (code, image) => {
    const { model, board } = uno(old);
    await expect(flash({ image }, board, signal)).rejects.toMatchObject({ code, exit: 'refused' });
    expect(Buffer.compare(model.memory, old)).toBe(0);
    expect(model.ran).toEqual(['old']);
  });

  test('stops with the reason of its signal, parked', async () => {
    const { model, port, board } = uno(old, other);
    const reason = new Error('enough');
    const stop = new AbortController();
    const onProgress = ({ phase, doneBytes }: FlashProgress): void => {
      if (phase === 'writing' && doneBytes > size / 2) stop.abort(reason);
    };
    await expect(flash({ image: imageAt(other), onProgress }, board, stop.signal)).rejects.toBe(reason);
    model.power(port.clock.monotonicMs());
    expect(model.ran).toEqual(['parked']);
  });

  test('tells how far it is, in order', async () => {
    const { board } = uno(old, other);
    const seen: FlashProgress[] = [];
    await flash({ image: imageAt(other), onProgress: (progress) => void seen.push(progress) }, board, signal);
    const written = seen.filter(({ phase }) => phase === 'writing').map(({ doneBytes }) => doneBytes);
    expect(written).toEqual(written.toSorted((a, b) => a - b));
    expect(written.at(-1)).toBe(size);
    expect([seen[0]?.phase, seen.at(-1)?.phase]).toEqual(['connecting', 'done']);
  });

  test('ends with an error that helps where nothing answers', async () => {
    const { model, board } = uno(old);
    model.dead = true;
    const failure = flash({ image: imageAt(old) }, board, signal);
    await expect(failure).rejects.toMatchObject({ code: 'board-timeout', exit: 'disk' });
    await expect(failure).rejects.toThrow('board: the bootloader is not responding');
  });

  test('reports that the port cannot reset the board if that is the reason for a timeout', async () => {
    const { model, port, board } = uno(old);
    model.dead = true;
    const openLine: typeof board.openLine = async (settings) => {
      const line = await port.open(settings);
      line.setModem = async () => false;
      return line;
    };
    await expect(flash({ image: imageAt(old) }, { ...board, openLine }, signal)).rejects.toMatchObject({
      message: 'board: the bootloader is not responding, and its port has no line to reset it',
      advice: 'set `reset` of this target to a command that resets the board',
    });
  });

  test('is refused where another chip answers after a reset', async () => {
    const { model, port, board } = uno(old, other);
    const original = board.protocol;
    let connects = 0;
    const protocol = {
      ...original,
      *connect() {
        connects += 1;
        const session = yield* original.connect();
        return connects === 1 ? session : { ...session, chip: { ...session.chip, id: 'other' } };
      },
    };
    port.inject({ kind: 'unplug', direction: 'to-board', at: 2_987 });
    await expect(flash({ image: imageAt(other) }, { ...board, protocol }, signal)).rejects.toMatchObject({
      code: 'board-changed',
    });
    expect(model.ran).toEqual(['parked']);
  });
});

describe('a damaged write', () => {
  /**
   * Returns the offset, in bytes to the board, where the write of page 55 begins: its neighbors by one bit are complete
   * then.
   */
  async function writeInTheMiddle(): Promise<number> {
    const { port, board } = uno(old, other);
    const places: number[] = [];
    const onProgress = ({ phase, doneBytes }: FlashProgress): void => {
      if (phase === 'writing' && doneBytes === 54 * pageBytes) places.push(port.counts['to-board']);
    };
    await flash({ image: imageAt(other), onProgress }, board, signal);
    return places[0] ?? 0;
  }

  test.each([6, 7])('that went to another page, by bit %i of its address, is found there', async (bit) => {
    const { model, port, board } = uno(old, other);
    port.inject({ kind: 'flip', direction: 'to-board', at: (await writeInTheMiddle()) + 2, bit });
    const report = await flash({ image: imageAt(other) }, board, signal);
    expect(model.ran).toEqual(['new']);
    expect(report.unitsWritten).toBe(pages);
    expect(report.repeated).toBeGreaterThan(0);
  });

  test('that went to another page and failed besides is found there too', async () => {
    const { model, port, board } = uno(old, other);
    const at = await writeInTheMiddle();
    const flip = { kind: 'flip', direction: 'to-board', at: at + 2, bit: 6 } as const;
    port.inject(flip, { kind: 'drop', direction: 'to-board', at: at + 60 });
    await flash({ image: imageAt(other) }, board, signal);
    expect(model.ran).toEqual(['new']);
  });

  test('that lost a byte is repeated without a reset', async () => {
    const { model, port, board } = uno(old, other);
    port.inject({ kind: 'drop', direction: 'to-board', at: (await writeInTheMiddle()) + 60 });
    const report = await flash({ image: imageAt(other) }, board, signal);
    expect(model.ran).toEqual(['new']);
    expect(report).toMatchObject({ resets: 1, repeated: 1 });
  });
});

describe('without a flash', () => {
  test('a plan shows the size of the change, and changes nothing', async () => {
    const { model, board } = uno(old, changed);
    expect(await planFlash(imageAt(changed), board, signal)).toMatchObject({ unitsTotal: pages, unitsDifferent: 1 });
    expect(Buffer.compare(model.memory, old)).toBe(0);
    expect(model.ran).toEqual(['old']);
  });

  test('a probe shows the chip and its capabilities', async () => {
    const { model, board } = uno(old);
    expect(await probe(board, signal)).toMatchObject({ chip: { name: 'ATmega328P' }, can: ['read', 'park', 'write'] });
    expect(model.ran).toEqual(['old']);
  });

  test('a damaged answer does not get into what is read back', async () => {
    const { port, board } = uno(old);
    port.inject({ kind: 'flip', direction: 'to-host', at: 5_000 });
    const read = await readBack(board, signal);
    expect(read?.digest).toBe(imageAt(old).digest);
  });
});

describe('a chip that is nearly empty', () => {
  const little = new Uint8Array(size).fill(0xff);
  little.set(old.subarray(0, 5 * pageBytes));
  little.set(old.subarray(0, pageBytes), 90 * pageBytes);

  async function readAfter(...faults: readonly Fault[]): Promise<ReadBack> {
    const { port, board } = uno(little);
    port.inject(...faults);
    const read = await readBack(board, signal);
    return { digest: read?.digest, sentBytes: port.counts['to-board'] };
  }

  interface ReadBack {
    readonly digest: string | undefined;
    readonly sentBytes: number;
  }

  const wanted = imageOfMemory(little, 0)?.digest;

  test('reads each range once, and ranges with a difference again, with their neighbors', async () => {
    const { port, board } = uno(old);
    await readBack(board, signal);
    const found = await readAfter();
    expect(found.digest).toBe(wanted);
    expect(found.sentBytes / port.counts['to-board']).toBeCloseTo((pages + 6 + 3) / (2 * pages), 1);
  });

  test('is read twice once the line has shown an error', async () => {
    const found = await readAfter({ kind: 'drop', direction: 'to-host', at: 3_000 });
    expect(found.digest).toBe(wanted);
    expect(found.sentBytes).toBeGreaterThan((await readAfter()).sentBytes * 1.7);
  });

  test('is kept whole, whichever page the command of a page that holds something went to', async () => {
    const commandBytes = 9;
    for (let at = 0; at < 10 * commandBytes; at += 1) {
      const found = await readAfter({ kind: 'flip', direction: 'to-board', at, bit: 6 });
      expect(found.digest, `byte ${at}`).toBe(wanted);
    }
  });
});

test('an STM32 with read protection is explained, not retried', async () => {
  const programs = { old: program(1024, 1), new: program(1024, 2) };
  const model = new Stm32Model({ programs, pageBytes: 1024, productId: 0x410, readProtected: true });
  const port = new VirtualPort(model);
  const { board } = uno(old);
  const locked = { ...board, protocol: stm32(), openLine: port.open, clock: port.clock };
  await expect(flash({ image: imageAt(programs.new, 0x08000000) }, locked, signal)).rejects.toMatchObject({
    code: 'board-protected',
    remedy: 'give-up',
    advice: 'lift the protection with a debug probe or `stm32flash -k`; that erases the whole chip',
  });
  expect(port.settings.parity).toBe('even');
});
