import { describe, expect, test } from 'vitest';

import type { Board } from '../../../../src/mcu/connection.ts';
import { createBoard } from '../../../../src/mcu/create-board.ts';
import { flash, probe } from '../../../../src/mcu/flash/flash.ts';
import type { FlashProgress } from '../../../../src/mcu/flash/flash.ts';
import { makeImage } from '../../../../src/mcu/images/image.ts';
import type { Image } from '../../../../src/mcu/images/image.ts';
import { esp } from '../../../../src/mcu/protocols/esp/esp.ts';
import type { EspSettings } from '../../../../src/mcu/protocols/esp/esp.ts';
import type { BoardSettings } from '../../../../src/mcu/settings.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { espImage } from '../../../fakes/boards/models/esp-image.ts';
import { EspModel } from '../../../fakes/boards/models/esp-model.ts';
import { espTraits, securityInfo } from '../../../fakes/boards/models/esp-traits.ts';
import type { EspTraits } from '../../../fakes/boards/models/esp-traits.ts';
import { VirtualPort } from '../../../fakes/boards/models/virtual-line.ts';
import { readBack } from '../../../fakes/boards/read-back.ts';
import { noisyProgram } from './fault-matrix.ts';

const signal = new AbortController().signal;
const sectorBytes = 4096;
const sectors = 50;
const start = 0x1_0000;
const flashBytes = 1024 * 1024;
const old = noisyProgram(sectors * sectorBytes, 1);
const other = noisyProgram(sectors * sectorBytes, 2);
const changed = Uint8Array.from(old);
changed[25 * sectorBytes + 3] = 0x42;

interface Rig {
  readonly model: EspModel;
  readonly port: VirtualPort;
  readonly board: Board;
}

function rig(traits: EspTraits, next: Uint8Array, options: EspSettings = {}, at = start): Rig {
  const model = new EspModel({ traits, programs: { old, new: next }, start: at, flashBytes });
  const port = new VirtualPort(model);
  const board: Board = {
    name: 'board',
    protocol: esp(options),
    baud: options.baud ?? 115_200,
    reset: 'dtr-rts',
    openLine: port.open,
    clock: port.clock,
    log: silentLog,
  };
  return { model, port, board };
}

function imageAt(bytes: Uint8Array, address = start): Image {
  return makeImage('raw', [{ address, bytes }]);
}

function expectClean(model: EspModel): void {
  expect(model.violations).toEqual([]);
  expect(model.rejected).toEqual([]);
  expect(model.overruns).toBe(0);
}

describe('a flash of an ESP32', () => {
  const traits = espTraits('esp32');

  test('writes all that differs in runs of sectors, verifies it by digest and starts it', async () => {
    const { model, board } = rig(traits, other);
    const report = await flash({ image: imageAt(other) }, board, signal);
    expect(report).toMatchObject({
      unitsTotal: sectors,
      unitsWritten: sectors,
      known: 'sent',
      repeated: 0,
      resets: 1,
    });
    expect(model.ran).toEqual(['new']);
    expectClean(model);
  });

  test('with unchanged content compares digests, and changes nothing', async () => {
    const { model, board } = rig(traits, old);
    const before = model.flash.operations;
    const report = await flash({ image: imageAt(old) }, board, signal);
    expect(report).toMatchObject({ unitsWritten: 0, known: 'sent' });
    expect(model.flash.operations).toBe(before);
    expectClean(model);
  });

  test('writes the sectors that differ, and the first one, which was parked, in less than half the time', async () => {
    const full = rig(traits, other);
    await flash({ image: imageAt(other) }, full.board, signal);
    const { model, port, board } = rig(traits, changed);
    const report = await flash({ image: imageAt(changed) }, board, signal);
    expect(report).toMatchObject({ unitsWritten: 2, known: 'sent' });
    expect(model.ran).toEqual(['new']);
    expectClean(model);
    expect(port.clock.monotonicMs()).toBeLessThan(full.port.clock.monotonicMs() / 2);
  });

  test('leaves memory outside the image unchanged', async () => {
    const { model, board } = rig(traits, other);
    const beside = new Uint8Array(sectorBytes).fill(0x42);
    model.flash.bytes.set(beside, start - sectorBytes);
    model.flash.bytes.set(beside, start + old.byteLength);
    await flash({ image: imageAt(other) }, board, signal);
    expect(model.flash.bytes.subarray(start - sectorBytes, start)).toEqual(beside);
    expect(model.flash.bytes.subarray(start + old.byteLength, start + old.byteLength + sectorBytes)).toEqual(beside);
  });

  test('sends a damaged packet again: nothing is erased twice or started again', async () => {
    const clean = rig(traits, other);
    await flash({ image: imageAt(other) }, clean.board, signal);
    const { model, port, board } = rig(traits, other);
    port.inject({ kind: 'drop', direction: 'to-board', at: 20_000 });
    const report = await flash({ image: imageAt(other) }, board, signal);
    expect(report).toMatchObject({ repeated: 0, resets: 1 });
    expect(model.flash.operations).toBe(clean.model.flash.operations);
    expect(model.rejected).toHaveLength(1);
  });

  test('finds what a damaged beginning wrote over a run that was finished', async () => {
    const places: number[] = [];
    const clean = rig(traits, other);
    const onProgress = ({ phase, doneBytes }: FlashProgress): void => {
      if (phase === 'writing' && doneBytes === (15 + 16) * sectorBytes) places.push(clean.port.counts['to-board']);
    };
    await flash({ image: imageAt(other), onProgress }, clean.board, signal);
    const { model, port, board } = rig(traits, other);
    const [frameEnd, head, wordsBefore] = [1, 8, 12];
    const at = (places[0] ?? 0) + frameEnd + head + wordsBefore + 3;
    port.inject({ kind: 'flip', direction: 'to-board', at, bit: 0 });
    const report = await flash({ image: imageAt(other) }, board, signal);
    expect(model.ran).toEqual(['new']);
    expect(report).toMatchObject({ known: 'sent', repeated: 16 });
  });

  test('finds what the damaged beginning of its last write erased besides', async () => {
    const places: number[] = [];
    const clean = rig(traits, other);
    const onProgress = ({ phase, doneBytes }: FlashProgress): void => {
      if (phase === 'writing' && doneBytes === (sectors - 1) * sectorBytes) places.push(clean.port.counts['to-board']);
    };
    await flash({ image: imageAt(other), onProgress }, clean.board, signal);
    const { model, port, board } = rig(traits, other);
    const [frameEnd, head] = [1, 8];
    port.inject({ kind: 'flip', direction: 'to-board', at: (places[0] ?? 0) + frameEnd + head + 2, bit: 5 });
    await flash({ image: imageAt(other) }, board, signal);
    expect(model.ran).toEqual(['new']);
  });

  test.each([
    ['the head of its program', start, start],
    ['the head of its bootloader, although the image begins before', 0, 0x1000],
  ])('parks %s first, and writes it last', async (_, at, parked) => {
    const next = Uint8Array.from(other);
    const [headBytes, tailBytes] = [32, 16];
    next.set(espImage(other.subarray(headBytes + tailBytes + parked - at)), parked - at);
    const { model, board } = rig(traits, next, {}, at);
    const afterErasing = 1;
    model.dieAtWrite(afterErasing, false);
    await expect(flash({ image: imageAt(next, at) }, board, signal)).rejects.toMatchObject({ code: 'board-timeout' });
    const expected = Buffer.from(old);
    expected.fill(0xff, parked - at, parked - at + sectorBytes);
    expect(Buffer.compare(model.memory, expected)).toBe(0);
  });

  test('cannot be read back: nothing is given to be kept', async () => {
    const { board } = rig(traits, other);
    const kept: (Image | undefined)[] = [];
    await flash({ image: imageAt(other), keep: async (image) => void kept.push(image) }, board, signal);
    expect(kept).toEqual([]);
    await expect(readBack(board, signal)).rejects.toMatchObject({ code: 'board-unsupported' });
  });

  test('without modem lines asks the loader to start the application', async () => {
    const { model, board } = rig(traits, other, { hasResetLine: false });
    model.reset(0);
    await flash({ image: imageAt(other) }, { ...board, reset: 'none' }, signal);
    expect(model.ran).toEqual(['new']);
    expectClean(model);
  });
});

describe('the baud rate', () => {
  test('is raised once the loader was found', async () => {
    const slow = rig(espTraits('esp32s3'), other);
    await flash({ image: imageAt(other) }, slow.board, signal);
    const fast = rig(espTraits('esp32s3'), other, { baud: 921_600 });
    await flash({ image: imageAt(other) }, fast.board, signal);
    expect(fast.port.settings.baud).toBe(921_600);
    expect(fast.port.clock.monotonicMs()).toBeLessThan(slow.port.clock.monotonicMs() / 2);
    expectClean(fast.model);
  });

  test('stays where it was found where the chip cannot be heard at the other', async () => {
    const { model, port, board } = rig(espTraits('esp32'), other, { baud: 921_600 });
    const openLine: Board['openLine'] = async (settings) => {
      const line = await port.open(settings);
      const setBaud = line.setBaud.bind(line);
      line.setBaud = async (baud, lineSignal) => setBaud(baud > 460_800 ? 900_000 : baud, lineSignal);
      return line;
    };
    const report = await flash({ image: imageAt(other) }, { ...board, openLine }, signal);
    expect(report).toMatchObject({ known: 'sent', resets: 3 });
    expect(port.settings.baud).toBe(115_200);
    expect(model.ran.at(-1)).toBe('new');
  });

  test('of an ESP8266 is not raised: its ROM cannot', async () => {
    const { model, port, board } = rig(espTraits('esp8266'), other, { baud: 921_600 });
    await probe(board, signal);
    expect(port.settings.baud).toBe(115_200);
    expectClean(model);
  });
});

describe('a chip', () => {
  test.each([
    ['esp8266', 'ESP8266', ['park', 'write']],
    ['esp32', 'ESP32', ['digest', 'park', 'write']],
    ['esp32c3', 'ESP32-C3', ['digest', 'park', 'write']],
    ['esp32s3', 'ESP32-S3', ['digest', 'park', 'write']],
  ] as const)('%s is known, with the size of its flash memory', async (name, known, can) => {
    const { model, board } = rig(espTraits(name), other);
    const report = await probe(board, signal);
    expect(report).toMatchObject({ chip: { name: known, flash: { start: 0, end: flashBytes } }, can });
    expect(model.ran).toEqual(['old']);
    expectClean(model);
  });

  test.each([
    ['magic number', { ...espTraits('esp32'), magic: 0x1234 }, 'the magic number 0x1234'],
    ['chip number', { ...espTraits('esp32c3'), securityInfo: securityInfo(13, {}) }, 'the chip number 13'],
  ])('with an unknown %s is refused', async (_, traits, what) => {
    const refused = probe(rig(traits, other).board, signal);
    await expect(refused).rejects.toMatchObject({ code: 'board-unknown' });
    await expect(refused).rejects.toThrow(what);
  });

  test.each([
    ['in secure download mode', espTraits('esp32c3', { locked: true }), 'is in secure download mode'],
    ['that encrypts, by its loader', espTraits('esp32s3', { encrypted: true }), 'encrypts its flash memory'],
    ['that encrypts, by its fuses', espTraits('esp32', { encrypted: true }), 'encrypts its flash memory'],
  ])('%s is refused, and nothing is changed', async (_, traits, what) => {
    const { model, board } = rig(traits, other);
    const refused = flash({ image: imageAt(other) }, board, signal);
    await expect(refused).rejects.toMatchObject({ code: 'board-protected' });
    await expect(refused).rejects.toThrow(what);
    expect(Buffer.compare(model.memory, old)).toBe(0);
  });

  test.each([
    ['its loader', 'esp32c3'],
    ['its fuses', 'esp32'],
  ] as const)('with Secure Boot, by %s, keeps its bootloader, and takes programs', async (_, name) => {
    const { board } = rig(espTraits(name, { securesBoot: true }), other);
    const overwrites = flash({ image: imageAt(other, 0x1000) }, board, signal);
    await expect(overwrites).rejects.toMatchObject({ code: 'image-overwrites-bootloader' });
    expect(await flash({ image: imageAt(other) }, board, signal)).toMatchObject({ known: 'sent' });
  });

  test('with an unknown size of flash memory is rejected, unless the size is configured', async () => {
    const strange = rig(espTraits('esp32'), other);
    Object.defineProperty(strange.model.flash, 'jedecId', { value: 0xff_ffff });
    await expect(probe(strange.board, signal)).rejects.toMatchObject({
      code: 'board-unknown',
      advice: 'set `flash_bytes` of this target; if that does not help, check the wiring of the flash chip',
    });
    const board = { ...strange.board, protocol: esp({ flashBytes }) };
    expect(await probe(board, signal)).toMatchObject({ chip: { flash: { end: flashBytes } } });
  });

  test('that is an ESP8266 gets pairs of sectors, not one more, and reports that it cannot verify', async () => {
    const { model, board } = rig(espTraits('esp8266'), other);
    const beside = new Uint8Array(2 * sectorBytes).fill(0x42);
    model.flash.bytes.set(beside, start + old.byteLength);
    const report = await flash({ image: imageAt(other) }, board, signal);
    expect(report).toMatchObject({ unitsWritten: sectors / 2, known: 'sent' });
    expect(model.ran).toEqual(['new']);
    expect(model.flash.bytes.subarray(start + old.byteLength, start + old.byteLength + 2 * sectorBytes)).toEqual(
      beside,
    );
    expectClean(model);
  });
});

test('a configured board with an ESP is flashed at the configured rate', async () => {
  const { model, port } = rig(espTraits('esp32'), changed);
  const settings: BoardSettings = {
    kind: 'mcu',
    name: 'meter',
    port: '/dev/serial/by-id/meter',
    protocol: 'esp',
    baud: 460_800,
    reset: 'dtr',
    address: start,
    format: undefined,
    bootloaderBytes: undefined,
    flashBytes: undefined,
    ramBytes: undefined,
    mcubootKeyFile: undefined,
    smp: { framing: 'console', image: 0, confirm: false },
    xmodem: { variant: 'xmodem-1k', uploadKeys: undefined, startKeys: undefined, fileName: undefined },
  };
  const openPort = async (_: string, ...line: Parameters<VirtualPort['open']>) => port.open(...line);
  const board = await createBoard(settings, { clock: port.clock, log: silentLog, openPort });
  expect(await flash({ image: imageAt(changed) }, board, signal)).toMatchObject({ unitsWritten: 2 });
  expect(port.settings.baud).toBe(460_800);
  expect(model.ran).toEqual(['new']);
});
