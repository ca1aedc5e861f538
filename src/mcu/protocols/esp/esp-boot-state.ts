import type { Chip } from '../../chip.ts';
import { hex, McuError } from '../../errors.ts';
import { beginsApplication, endsEarly, isEspImage, longHeadBytes, segmentHeadBytes } from '../../images/esp-image.ts';
import { isBlank, sliceOf, touches } from '../../images/image.ts';
import type { Image } from '../../images/image.ts';
import type { BootPlan, ChipDigest, Conversation } from '../../protocol.ts';
import {
  endsTable,
  entryBytes,
  entryIn,
  isIn,
  nameOf,
  noApplication,
  otadataOf,
  partitionsIn,
  planBoot,
  requireApplications,
  selects,
  startedBy,
  tableBytes,
  writtenBy,
} from './esp-boot.ts';
import type { BootState, Entry, Partition } from './esp-boot.ts';
import { contentOf, sectorBytes, tableAddress } from './esp-chips.ts';
import type { EspFamily } from './esp-chips.ts';
import { words } from './esp-frames.ts';
import { demand, espCommand } from './esp-registers.ts';

/** A ROM answers with this number of bytes, even if fewer are requested (esptool, `read_flash_slow`). */
const readBytes = 64;

interface ReadState {
  readonly held: BootState;
  /** The same with an image in it. */
  readonly state: BootState;
  /** The sectors of otadata. */
  readonly sectors: readonly Uint8Array[];
}

export interface Wanted {
  readonly image: Image;
  /** A backup may hold the selection alone. */
  readonly toStay: boolean;
}

/** Plans how the bootloader comes to start an image. Without a partition table, only what the ROM starts is known. */
export function* bootPlanFor(
  wanted: Wanted,
  { bootAddress }: EspFamily,
  chip: Chip,
  digest: ChipDigest,
): Conversation<BootPlan> {
  const { image } = wanted;
  const read = yield* readState(digest, wanted);
  if (read !== undefined) {
    requireApplications(image, read.state, chip, bootAddress);
    if (writtenBy(image, read.state).length > 0) return planBoot(image, read.held, read.state, read.sectors);
    return yield* planWithout(wanted, read.state, chip, digest);
  }
  const isLong = endsEarly(contentOf(image, bootAddress, tableAddress));
  if (!isLong && replacesTable(image)) {
    const message = `the image has no valid partition table for ${hex(tableAddress)}, so nothing would start`;
    throw new McuError('image-overwrites-bootloader', message, { advice: 'check the address of the target' });
  }
  return { image, known: isIn(image, bootAddress) ? 'read-back' : 'sent', guard: undefined, before: undefined };
}

/** Plans for an image without an application: only a backup may select one that the chip holds. */
function* planWithout(
  { image, toStay }: Wanted,
  state: BootState,
  chip: Chip,
  digest: ChipDigest,
): Conversation<BootPlan> {
  const started = startedBy(state);
  const isSelection = selects(image, state);
  if (isSelection && !toStay) throw noApplication(started);
  const isHeld = (isSelection || replacesTable(image)) && (yield* holdsApplication(started, chip, digest));
  if (replacesTable(image) && !isHeld) throw noApplication(started, 'neither the file nor the chip has an');
  return { image, known: isSelection && isHeld ? 'otadata' : 'sent', guard: undefined, before: undefined };
}

function replacesTable(image: Image): boolean {
  return touches(image, tableAddress, tableAddress + tableBytes, sectorBytes);
}

/** Reads the heads of image and segments only: a ROM takes minutes to read an application. */
function* holdsApplication(place: Partition | undefined, chip: Chip, digest: ChipDigest): Conversation<boolean> {
  if (place === undefined || place.start + place.sizeBytes > chip.flash.end) return false;
  const { start } = place;
  const end = start + place.sizeBytes;
  const head = Buffer.from(yield* verified(start, yield* readBlock(start), digest));
  if (!isEspImage(head) || head.readUInt16LE(12) !== chip.espImages) return false;
  const loadedTo: number[] = [];
  let at = start + longHeadBytes;
  for (let segments = head.readUInt8(1); segments > 0; segments -= 1) {
    if (at + readBytes > end) return false;
    const segment = Buffer.from(yield* verified(at, yield* readBlock(at), digest));
    loadedTo.push(segment.readUInt32LE(0));
    at += segmentHeadBytes + segment.readUInt32LE(4);
  }
  return at < end && beginsApplication(head, loadedTo);
}

/** Returns the name of the application partition that the bootloader starts, if any. */
export function* bootedSlot(digest: ChipDigest): Conversation<string | undefined> {
  const read = yield* readState(digest);
  const started = read === undefined ? undefined : startedBy(read.held);
  return started === undefined ? undefined : nameOf(started);
}

function* readState(digest: ChipDigest, wanted?: Wanted): Conversation<ReadState | undefined> {
  const table = yield* readTable(digest);
  const partitions = partitionsIn(overlaid(table, tableAddress, wanted?.image));
  if (partitions === undefined) return undefined;
  const otadata = otadataOf(partitions);
  const addresses = otadata === undefined ? [] : [otadata.start, otadata.start + sectorBytes];
  const blocks: { readonly address: number; readonly bytes: Uint8Array }[] = [];
  for (const address of addresses) {
    blocks.push({ address, bytes: yield* verified(address, yield* readBlock(address), digest) });
  }
  return {
    held: { partitions: partitionsIn(table) ?? [], otadata, entries: blocks.map(({ bytes }) => entryIn(bytes)) },
    state: {
      partitions,
      otadata,
      entries: blocks.map(({ address, bytes }) => entryWith(wanted, address, bytes)),
    },
    sectors: blocks.map(({ bytes }) => Buffer.concat([bytes], sectorBytes).fill(0xff, bytes.byteLength)),
  };
}

/** Returns the entry in a sector with an image in it, which must not damage the entry. */
function entryWith(wanted: Wanted | undefined, address: number, held: Uint8Array): Entry | undefined {
  const bytes = overlaid(held, address, wanted?.image);
  const entry = entryIn(bytes);
  if (bytes === held || wanted?.toStay === true || entry !== undefined || isBlank(bytes.subarray(0, entryBytes))) {
    return entry;
  }
  const message = `the image has neither a valid entry of otadata at ${hex(address)} nor blank bytes`;
  throw new McuError('image-unknown', message, { advice: 'check the address of the target' });
}

function* readTable(digest: ChipDigest): Conversation<Uint8Array> {
  const blocks: Uint8Array[] = [];
  for (let at = 0; at < tableBytes; at += readBytes) {
    const block = yield* readBlock(tableAddress + at);
    blocks.push(block);
    if (endsTable(block)) break;
  }
  const table = yield* verified(tableAddress, Buffer.concat(blocks), digest);
  return Buffer.concat([table], tableBytes).fill(0xff, table.byteLength);
}

/** Answers carry no checksum, so the bytes that were read are compared by a digest. */
function* verified(address: number, bytes: Uint8Array, digest: ChipDigest): Conversation<Uint8Array> {
  if ((yield* digest.ofChip(address, bytes.byteLength)) === digest.ofBytes(bytes)) return bytes;
  throw new McuError('board-bad-response', 'flash memory reads differently from its digest');
}

/** READ_FLASH_SLOW, which only ROM loaders have. */
function* readBlock(address: number): Conversation<Uint8Array> {
  const data = words(address, readBytes);
  const response = yield* demand({ command: espCommand.readFlash, data }, readBytes);
  return Uint8Array.from(response.data.subarray(0, readBytes));
}

/** Returns the bytes of a sector. If the image replaces the sector, returns its bytes. */
function overlaid(bytes: Uint8Array, address: number, image?: Image): Uint8Array {
  const end = address + bytes.byteLength;
  return image !== undefined && touches(image, address, end, sectorBytes) ? sliceOf(image, address, end) : bytes;
}
