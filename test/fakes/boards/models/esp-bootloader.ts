import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';

import { isStartedBy } from './esp-image.ts';
import type { EspTraits } from './esp-traits.ts';

/**
 * The partition table and the second-stage bootloader of ESP-IDF 5, as far as they choose an application: after
 * `bootloader_utility.c` (`get_selected_boot_partition`, `load_boot_image`), `bootloader_common_loader.c` and
 * `flash_partitions.c`. Its entries match a real chip: esp/esp-boot.unit.test.ts.
 */
const tableAddress = 0x8000;
const sectorBytes = 4096;

export interface PartitionEntry {
  readonly name: string;
  readonly type: number;
  readonly subtype: number;
  readonly start: number;
  readonly bytes: number;
}

/** A usual table: otadata and two slots; with or without a factory application before them. */
export function twoSlots(hasFactory = false): readonly PartitionEntry[] {
  return [
    { name: 'nvs', type: 1, subtype: 2, start: 0x9000, bytes: 0x4000 },
    { name: 'otadata', type: 1, subtype: 0, start: 0xd000, bytes: 0x2000 },
    { name: 'phy_init', type: 1, subtype: 1, start: 0xf000, bytes: 0x1000 },
    ...(hasFactory ? [{ name: 'factory', type: 0, subtype: 0, start: 0x30000, bytes: 0x10000 }] : []),
    { name: 'ota_0', type: 0, subtype: 0x10, start: 0x10000, bytes: 0x10000 },
    { name: 'ota_1', type: 0, subtype: 0x11, start: 0x20000, bytes: 0x10000 },
  ];
}

/** The table as gen_esp32part.py writes it, with the MD5 entry at its end. */
export function partitionTable(entries: readonly PartitionEntry[]): Uint8Array {
  const table = Buffer.alloc(0xc00, 0xff);
  for (const [index, { name, type, subtype, start, bytes }] of entries.entries()) {
    const entry = Buffer.alloc(32);
    entry.writeUInt16LE(0x50aa, 0);
    entry.writeUInt8(type, 2);
    entry.writeUInt8(subtype, 3);
    entry.writeUInt32LE(start, 4);
    entry.writeUInt32LE(bytes, 8);
    entry.write(name, 12, 'latin1');
    table.set(entry, index * 32);
  }
  const end = entries.length * 32;
  table.writeUInt16LE(0xebeb, end);
  table.set(createHash('md5').update(table.subarray(0, end)).digest(), end + 16);
  return table;
}

/** States of esp_ota_img_states_t. `undefined` is -1, no limits. */
export type OtaState = 'new' | 'pending' | 'valid' | 'invalid' | 'aborted' | 'undefined';
const states = { new: 0, pending: 1, valid: 2, invalid: 3, aborted: 4, undefined: 0xffff_ffff } as const;

export function otaEntry(sequence: number, state: OtaState = 'undefined'): Uint8Array {
  const entry = Buffer.alloc(32, 0xff);
  entry.writeUInt32LE(sequence, 0);
  entry.writeUInt32LE(states[state], 24);
  entry.writeUInt32LE(crc32(entry.subarray(0, 4), 0xffff_ffff), 28);
  return entry;
}

/** A chip with two slots, the second of which is selected and holds this program. */
export function selectSecondSlot(flash: Uint8Array, running: Uint8Array): void {
  flash.set(partitionTable(twoSlots()), tableAddress);
  flash.set(otaEntry(1), 0xd000);
  flash.set(otaEntry(2), 0xd000 + sectorBytes);
  flash.set(running, 0x20000);
}

/** Starts what otadata selects, with `rollback` as with BOOTLOADER_APP_ROLLBACK_ENABLE. Returns the address. */
export function startFrom(flash: Uint8Array, rollback: boolean, traits: EspTraits): number | undefined {
  const bytes = Buffer.from(flash.buffer, flash.byteOffset, flash.byteLength);
  const table = tableIn(bytes);
  const entryOf = (type: number, subtype: number): PartitionEntry | undefined =>
    table.find((entry) => entry.type === type && entry.subtype === subtype);
  const slots = table.filter(({ type, subtype }) => type === 0 && subtype >= 0x10 && subtype < 0x20).length;
  const factory = entryOf(0, 0);
  const otadata = entryOf(1, 0)?.start;
  const selected =
    otadata === undefined ? -1 : selectedIndex(bytes, otadata, { slots, hasFactory: factory !== undefined, rollback });
  // load_boot_image: downwards to the factory application, then upwards
  const order = [...range(selected, -1), -1, ...Array.from({ length: slots }, (_, index) => index)];
  const places = order.map((index) => (index < 0 ? factory : entryOf(0, 0x10 + index)));
  // esp_image_format.c: an image that is larger than its partition does not start
  return places.find(
    (place) => place !== undefined && isStartedBy(bytes.subarray(place.start, place.start + place.bytes), traits),
  )?.start;
}

function range(from: number, below: number): number[] {
  return Array.from({ length: Math.max(0, from - below) }, (_, index) => from - index);
}

interface Choice {
  readonly slots: number;
  readonly hasFactory: boolean;
  readonly rollback: boolean;
}

function selectedIndex(bytes: Buffer, otadata: number, { slots, hasFactory, rollback }: Choice): number {
  const places = [otadata, otadata + sectorBytes];
  const stateOf = (at: number): number => bytes.readUInt32LE(at + 24);
  if (rollback)
    for (const at of places) if (stateOf(at) === states.pending) bytes.writeUInt32LE(states.aborted, at + 24);
  const isBlank = (at: number): boolean =>
    bytes.readUInt32LE(at) === 0xffff_ffff || [states.invalid, states.aborted].some((state) => state === stateOf(at));
  if (places.every(isBlank) || slots === 0) return hasFactory ? -1 : 0;
  const isValid = (at: number): boolean =>
    !isBlank(at) && bytes.readUInt32LE(at + 28) === crc32(bytes.subarray(at, at + 4), 0xffff_ffff);
  const valid = places.filter(isValid).sort((a, b) => bytes.readUInt32LE(b) - bytes.readUInt32LE(a));
  const [active] = valid;
  if (active === undefined) return -1;
  if (rollback && stateOf(active) === states.new) bytes.writeUInt32LE(states.pending, active + 24);
  return (bytes.readUInt32LE(active) - 1) % slots;
}

function tableIn(bytes: Buffer): PartitionEntry[] {
  const found: PartitionEntry[] = [];
  for (let at = tableAddress; bytes.readUInt16LE(at) === 0x50aa; at += 32) {
    const [type, subtype] = [bytes.readUInt8(at + 2), bytes.readUInt8(at + 3)];
    found.push({ name: '', type, subtype, start: bytes.readUInt32LE(at + 4), bytes: bytes.readUInt32LE(at + 8) });
  }
  return found;
}
