import { expect } from 'vitest';

import { flash } from '../../../../../src/mcu/flash/flash.ts';
import type { FlashReport, FlashRequest } from '../../../../../src/mcu/flash/flash.ts';
import { makeImage } from '../../../../../src/mcu/images/image.ts';
import type { Image } from '../../../../../src/mcu/images/image.ts';
import { readImage } from '../../../../../src/mcu/images/read-image.ts';
import { esp } from '../../../../../src/mcu/protocols/esp/esp.ts';
import { otaEntry, partitionTable, twoSlots } from '../../../../fakes/boards/models/esp-bootloader.ts';
import type { PartitionEntry } from '../../../../fakes/boards/models/esp-bootloader.ts';
import { espApplication } from '../../../../fakes/boards/models/esp-image.ts';
import { EspModel } from '../../../../fakes/boards/models/esp-model.ts';
import { espTraits } from '../../../../fakes/boards/models/esp-traits.ts';
import type { EspTraits } from '../../../../fakes/boards/models/esp-traits.ts';
import { noisyProgram, rigOf } from '../fault-matrix.ts';

export const signal = new AbortController().signal;
export const programs = { old: espApplication(noisyProgram(9_000, 1)), new: espApplication(noisyProgram(9_000, 2)) };
export const stale = espApplication(noisyProgram(9_000, 3));
export const [first, second, factory, otadata] = [0x10000, 0x20000, 0x30000, 0xd000];

export interface Layout {
  readonly table?: readonly PartitionEntry[];
  /** By address. */
  readonly holds?: Readonly<Record<number, Uint8Array>>;
  readonly entries?: readonly (Uint8Array | undefined)[];
  readonly rollback?: boolean;
  readonly traits?: EspTraits;
  readonly flashBytes?: number;
}

export interface Bench {
  readonly model: EspModel;
  readonly board: ReturnType<typeof rigOf>['board'];
  readonly flash: (image: Image, more?: Partial<FlashRequest>) => Promise<FlashReport>;
  readonly restart: () => void;
}

/** A chip whose second slot runs the old program, unless the layout differs. */
export function bench({ table = twoSlots(), holds = { [second]: programs.old }, ...layout }: Layout = {}): Bench {
  const { entries = [otaEntry(1), otaEntry(2)], rollback = false, traits = espTraits('esp32'), flashBytes } = layout;
  const model = new EspModel({ traits, programs, start: first, rollback, ...(flashBytes && { flashBytes }) });
  model.flash.bytes.set(stale, first);
  model.flash.bytes.set(partitionTable(table), 0x8000);
  for (const [address, bytes] of Object.entries(holds)) model.flash.bytes.set(bytes, Number(address));
  for (const [index, entry] of entries.entries()) {
    if (entry !== undefined) model.flash.bytes.set(entry, otadata + index * 4096);
  }
  const { board, port } = rigOf({
    protocol: () => esp(),
    model: () => model,
    programs,
    start: first,
    baud: 115_200,
    mayBlankStart: true,
    obeysNoise: false,
  });
  const bring = async (image: Image, more?: Partial<FlashRequest>): Promise<FlashReport> =>
    flash({ image, ...more }, board, signal);
  const restart = (): void => {
    expect(model.ran).toBeDefined();
    model.power(port.clock.monotonicMs());
  };
  return { model, board, flash: bring, restart };
}

export const imageAt = (address: number, program = programs.new): Image => readImage(program, { address });

export const raw = (address: number, bytes: Uint8Array): Image => makeImage('raw', [{ address, bytes }]);
