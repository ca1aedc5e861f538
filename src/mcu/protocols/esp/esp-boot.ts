import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';

import { checkFits } from '../../chip.ts';
import type { Chip, Region } from '../../chip.ts';
import { hex, McuError } from '../../errors.ts';
import { endsEarly, hasTrailer, isApplication, isEspImage, readEspImage } from '../../images/esp-image.ts';
import { endOf, isBlank, makeImage, touches } from '../../images/image.ts';
import type { Image, Segment } from '../../images/image.ts';
import type { BootPlan } from '../../protocol.ts';
import { contentOf, sectorBytes, statedFlashBytes, tableAddress } from './esp-chips.ts';

/**
 * Which application the second-stage bootloader of an ESP starts. Sources: ESP-IDF, "Partition Tables" and "OTA";
 * `bootloader_utility.c`, `bootloader_common_loader.c`, `flash_partitions.c`; `otatool.py` for the entry that a host
 * writes.
 */
export const tableBytes = 0xc00;
const partitionBytes = 32;
export const entryBytes = 32;

const partitionMagic = 0x50aa;
const digestMagic = 0xebeb;
const endMagic = 0xffff;
const [appType, dataType] = [0, 1];
/** Subtypes of `app`: factory, and the slots from ota_0 to ota_15. */
const [factory, firstSlot, lastSlot] = [0x00, 0x10, 0x1f];
const otadataSubtype = 0x00;
/** Values of esp_ota_img_states_t. */
const [fresh, pendingVerify, invalid, aborted] = [0, 1, 3, 4];
/** A bootloader without rollback starts an application that waits for its confirmation. */
const withoutBad = [invalid, aborted];
/** A bootloader with rollback abandons that at the next start. */
const withoutUnconfirmed = [...withoutBad, pendingVerify];
/** And it starts a fresh one only once. */
const unconfirmed: ReadonlySet<number> = new Set([fresh, pendingVerify]);
/** The CRC of an entry covers its sequence number alone, and begins with ones. */
const crcSeed = 0xffff_ffff;

export interface Partition {
  readonly type: number;
  readonly subtype: number;
  readonly start: number;
  readonly sizeBytes: number;
}

/** esp_ota_select_entry_t. */
export interface Entry {
  readonly sequence: number;
  readonly state: number;
}

/** The data that decides which application starts: the partitions, and the two entries of otadata if there is one. */
export interface BootState {
  readonly partitions: readonly Partition[];
  readonly otadata: Partition | undefined;
  readonly entries: readonly (Entry | undefined)[];
}

/** True if the table ends with or before these bytes, so that no more of it has to be read. */
export function endsTable(bytes: Uint8Array): boolean {
  const last = Buffer.from(bytes.subarray(-partitionBytes));
  return ![partitionMagic, digestMagic].includes(last.readUInt16LE(0));
}

/** Returns the partitions in a table, or undefined if it is missing or damaged, so that nothing starts. */
export function partitionsIn(bytes: Uint8Array): readonly Partition[] | undefined {
  const table = Buffer.from(bytes);
  const partitions: Partition[] = [];
  for (let at = 0; at + partitionBytes <= table.byteLength; at += partitionBytes) {
    const magic = table.readUInt16LE(at);
    if (magic === endMagic && at > 0) return partitions;
    if (magic === digestMagic) {
      const digest = createHash('md5').update(table.subarray(0, at)).digest();
      if (!digest.equals(table.subarray(at + 16, at + partitionBytes))) return undefined;
    } else if (magic === partitionMagic) {
      partitions.push({
        type: table.readUInt8(at + 2),
        subtype: table.readUInt8(at + 3),
        start: table.readUInt32LE(at + 4),
        sizeBytes: table.readUInt32LE(at + 8),
      });
    } else return undefined;
  }
  return undefined;
}

export function otadataOf(partitions: readonly Partition[]): Partition | undefined {
  const found = partitions.find(({ type, subtype }) => type === dataType && subtype === otadataSubtype);
  return found !== undefined && found.sizeBytes >= 2 * sectorBytes ? found : undefined;
}

/** Returns an entry of otadata, or undefined if it is blank, or its CRC is wrong. */
export function entryIn(bytes: Uint8Array): Entry | undefined {
  const entry = Buffer.from(bytes);
  const sequence = entry.readUInt32LE(0);
  if (sequence === 0xffff_ffff || sequence === 0) return undefined;
  return entry.readUInt32LE(28) === crc32(entry.subarray(0, 4), crcSeed)
    ? { sequence, state: entry.readUInt32LE(24) }
    : undefined;
}

/** Returns the application that the bootloader starts, if any. */
export function startedBy({ partitions, entries }: BootState, without = withoutUnconfirmed): Partition | undefined {
  const active = entries[activeEntry(entries, without) ?? -1];
  const slots = partitions.filter(isSlot);
  const index = active === undefined ? 0 : (active.sequence - 1) % slots.length;
  const slot = slots.find(({ subtype }) => subtype === firstSlot + index);
  return (active === undefined ? partitions.find(isFactory) : slot) ?? partitions.find(isFactory) ?? slot;
}

/** True if the bootloader starts the partition now and at each later start, with or without rollback. */
function keepsStarting(partition: Partition, state: BootState): boolean {
  if (startedBy(state, withoutBad) !== partition) return false;
  const index = activeEntry(state.entries, withoutBad);
  if (index === undefined || !unconfirmed.has(state.entries[index]?.state ?? fresh)) return true;
  return keepsStarting(partition, { ...state, entries: state.entries.with(index, undefined) });
}

/** Returns the entry of otadata that counts, without entries in some states. */
function activeEntry(entries: BootState['entries'], without: readonly number[]): number | undefined {
  const sequences = entries.map((entry) => (entry === undefined || without.includes(entry.state) ? 0 : entry.sequence));
  const newest = Math.max(...sequences, 0);
  return newest === 0 ? undefined : sequences.indexOf(newest);
}

export function nameOf(partition: Partition): string {
  if (isFactory(partition)) return 'factory';
  return isSlot(partition) ? `ota_${partition.subtype - firstSlot}` : `the partition at ${hex(partition.start)}`;
}

/** Returns the partitions whose application the image replaces. */
export function writtenBy(image: Image, { partitions }: BootState): readonly Partition[] {
  return partitions.filter(({ type, start }) => type === appType && isIn(image, start));
}

/** True if the image replaces the selection in otadata. */
export function selects(image: Image, { otadata }: BootState): boolean {
  return otadata !== undefined && touchesSectors(image, otadata);
}

/**
 * Returns the data to write so that the bootloader starts the application in the image: the image, with an entry of
 * otadata if another application is selected. `held` is the state of the chip, `state` the one with the image in it,
 * and `sectors` the content of otadata.
 */
export function planBoot(image: Image, held: BootState, state: BootState, sectors: readonly Uint8Array[]): BootPlan {
  const { otadata } = state;
  const known = otadata === undefined ? 'read-back' : 'otadata';
  const started = startedBy(state);
  const written = writtenBy(image, state);
  const isStarted = started !== undefined && written.includes(started);
  if (isStarted && keepsStarting(started, state)) return { image, known, guard: undefined, before: undefined };
  const target = written.find((partition) => isFactory(partition) || isSlot(partition));
  if (target === undefined || otadata === undefined || selects(image, state)) {
    throw unselectable(written, started);
  }
  if (!isEspImage(contentOf(image, target.start))) throw noApplication(target);
  const selection = selectionOf(target, state, otadata);
  if (!keepsStarting(target, withSelection(state, selection, otadata))) throw unselectable(written, started);
  return {
    image: makeImage(image.format, [...image.segments, ...selection], image.madeFor),
    known,
    guard: selection[0]?.address,
    before: isReplaced(startedBy(held), image) ? undefined : makeImage('raw', sectorsAt(otadata.start, sectors)),
  };
}

/**
 * Throws McuError if the image replaces a part of an application by anything but a whole one for this chip that fits,
 * holds an ESP image where nothing starts it, or has bytes where nothing reads them. A partition that does not start may
 * become blank.
 */
export function requireApplications(image: Image, state: BootState, chip: Chip, bootAddress: number): void {
  requireRoom(image, state.partitions, chip, bootAddress);
  const started = startedBy(state);
  const applications = state.partitions.filter(({ type }) => type === appType);
  for (const partition of applications.filter((each) => touchesSectors(image, each))) {
    const { start, sizeBytes } = partition;
    const bytes = contentOf(image, start, start + sizeBytes);
    if (partition !== started && isBlank(bytes)) continue;
    if (!isEspImage(bytes)) throw noApplication(partition);
    if (endsEarly(bytes) && isIn(image, start + sizeBytes)) {
      const message = `the application is larger than ${nameOf(partition)}, which has ${sizeBytes} bytes`;
      throw new McuError('image-too-large', message);
    }
    checkFits(readEspImage(bytes, start), chip);
    if (!isApplication(bytes)) throw noApplication(partition);
    if (chip.securesBoot === true && !hasTrailer(bytes)) {
      const message = `${chip.name} starts only signed applications (Secure Boot), and the one for ${nameOf(partition)} is not`;
      throw new McuError('image-unsupported', message, { advice: 'sign it: espsecure sign_data' });
    }
  }
  const starts = [bootAddress, ...applications.map(({ start }) => start)];
  const stray = image.segments.find(({ address, bytes }) => isEspImage(bytes) && !starts.includes(address));
  if (stray !== undefined) {
    const message = `the ESP image is for ${hex(stray.address)}, but programs start at ${starts.map(hex).join(', ')}`;
    throw new McuError('image-unknown', message, { advice: 'check the address of the target' });
  }
  requirePartitions(image, state.partitions, bootAddress);
}

/**
 * Throws for a table or a bootloader in the image with which a partition ends behind the flash memory, or behind the size
 * that the header of the bootloader states: `flash_partitions.c` then refuses the whole table.
 */
function requireRoom(image: Image, partitions: readonly Partition[], chip: Chip, bootAddress: number): void {
  const bootloader = contentOf(image, bootAddress, tableAddress);
  const stated = isEspImage(bootloader) ? statedFlashBytes(bootloader) : Infinity;
  const room = Math.min(stated, isIn(image, tableAddress) ? chip.flash.end : Infinity);
  const beyond = partitions.find(({ start, sizeBytes }) => start + sizeBytes > room);
  if (beyond === undefined) return;
  const why = room === stated ? 'the header of the bootloader states' : `${chip.name} has`;
  throw new McuError('image-unknown', `${nameOf(beyond)} ends behind the flash memory: ${why} ${hex(room)} bytes`, {
    advice: 'build bootloader and partition table for the size of this flash memory',
  });
}

/** Outside of bootloader, partition table and partitions, bytes must be blank. */
function requirePartitions(image: Image, partitions: readonly Partition[], bootAddress: number): void {
  const places: Region[] = [
    { start: bootAddress, end: tableAddress + sectorBytes },
    ...partitions.map(({ start, sizeBytes }) => ({ start, end: start + sizeBytes })),
  ].sort((one, other) => one.start - other.start);
  let end = 0;
  for (const place of [...places, { start: Infinity, end: Infinity }]) {
    const at = contentOf(image, end, place.start).findIndex((byte) => byte !== 0xff);
    if (at >= 0) {
      const spans = places.map((each) => `${hex(each.start)} to ${hex(each.end)}`).join(', ');
      const message = `the image has bytes at ${hex(end + at)}, outside of bootloader, table and partitions: ${spans}`;
      throw new McuError('image-unknown', message, { advice: 'check the address of the target' });
    }
    end = Math.max(end, place.end);
  }
}

/** The bootloader would start nothing, or another partition. */
export function noApplication(partition: Partition | undefined, seen = 'the file has no'): McuError {
  const place = partition === undefined ? 'any partition' : nameOf(partition);
  const message = `${seen} ESP application for ${place}, so the bootloader would not start it`;
  return new McuError('image-unknown', message, { advice: 'give an application, and check the address of the target' });
}

function touchesSectors(image: Image, { start, sizeBytes }: Partition): boolean {
  return touches(image, start, start + sizeBytes, sectorBytes);
}

function isReplaced(started: Partition | undefined, image: Image): boolean {
  return started === undefined || isIn(image, started.start);
}

function unselectable(written: readonly Partition[], started: Partition | undefined): McuError {
  const starts = started === undefined ? 'nothing' : nameOf(started);
  const names = written.map(nameOf).join(', ');
  return new McuError('board-unsupported', `the image is for ${names}, but the bootloader starts ${starts}`);
}

/**
 * Returns the sectors of otadata that select an application. An entry replaces the inactive one, so that the
 * other application starts until it is written. The factory application starts if both are blank.
 */
function selectionOf(target: Partition, { partitions, entries }: BootState, otadata: Partition): readonly Segment[] {
  const blank = (): Uint8Array => new Uint8Array(sectorBytes).fill(0xff);
  if (isFactory(target)) return sectorsAt(otadata.start, [blank(), blank()]);
  const slots = partitions.filter(isSlot).length;
  const newest = Math.max(...entries.map((entry) => entry?.sequence ?? 0));
  // the next number that means this slot
  const distance = (((target.subtype - firstSlot - newest) % slots) + slots) % slots;
  const sector = Buffer.from(blank());
  sector.writeUInt32LE((newest + 1 + distance) % 2 ** 32, 0);
  sector.writeUInt32LE(crc32(sector.subarray(0, 4), crcSeed), 28);
  const index = activeEntry(entries, withoutUnconfirmed) === 0 ? 1 : 0;
  return [{ address: otadata.start + index * sectorBytes, bytes: sector }];
}

function withSelection(state: BootState, selection: readonly Segment[], otadata: Partition): BootState {
  const entries = [...state.entries];
  for (const { address, bytes } of selection) {
    entries[(address - otadata.start) / sectorBytes] = entryIn(bytes.subarray(0, entryBytes));
  }
  return { ...state, entries };
}

function sectorsAt(start: number, sectors: readonly Uint8Array[]): Segment[] {
  return sectors.map((bytes, index) => ({ address: start + index * sectorBytes, bytes }));
}

function isFactory({ type, subtype }: Partition): boolean {
  return type === appType && subtype === factory;
}

function isSlot({ type, subtype }: Partition): boolean {
  return type === appType && subtype >= firstSlot && subtype <= lastSlot;
}

export function isIn({ segments }: Image, address: number): boolean {
  return segments.some((segment) => segment.address <= address && address < endOf(segment));
}
