import type { Chip } from '../../chip.ts';
import { hex, McuError } from '../../errors.ts';
import { beginsApplication, endsEarly, isEspImage, longHeadBytes, segmentHeadBytes } from '../../images/esp-image.ts';
import { sliceOf, touches } from '../../images/image.ts';
import type { Image } from '../../images/image.ts';
import type { BootPlan, ChipDigest, Conversation } from '../../protocol.ts';
import {
  endsTable,
  entryIn,
  isIn,
  nameOf,
  otadataOf,
  partitionsIn,
  planBoot,
  requireApplications,
  selects,
  startedBy,
  tableBytes,
  writtenBy,
} from './esp-boot.ts';
import type { BootState, Partition } from './esp-boot.ts';
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

/** Plans how the bootloader comes to start an image. Without a partition table, only what the ROM starts is known. */
export function* bootPlanFor(
  image: Image,
  { bootAddress }: EspFamily,
  chip: Chip,
  digest: ChipDigest,
): Conversation<BootPlan> {
  const read = yield* readState(digest, image);
  if (read !== undefined) {
    requireApplications(image, read.state, chip, bootAddress);
    if (writtenBy(image, read.state).length > 0) return planBoot(image, read.held, read.state, read.sectors);
    if (replacesTable(image)) yield* requireHeld(startedBy(read.state), chip, digest);
    const known = selects(image, read.state) ? 'otadata' : 'sent';
    return { image, known, guard: undefined, before: undefined };
  }
  const isLong = endsEarly(contentOf(image, bootAddress, tableAddress));
  if (!isLong && replacesTable(image)) {
    const message = `the image has no valid partition table for ${hex(tableAddress)}, so nothing would start`;
    throw new McuError('image-overwrites-bootloader', message, { advice: 'check the address of the target' });
  }
  return { image, known: isIn(image, bootAddress) ? 'read-back' : 'sent', guard: undefined, before: undefined };
}

function replacesTable(image: Image): boolean {
  return touches(image, tableAddress, tableAddress + tableBytes, sectorBytes);
}

/** Throws McuError if the chip does not hold an application in the partition that starts. */
function* requireHeld(started: Partition | undefined, chip: Chip, digest: ChipDigest): Conversation<void> {
  if (started !== undefined && (yield* holdsApplication(started, chip, digest))) return;
  const place = started === undefined ? 'any partition' : nameOf(started);
  const message = `neither the file nor the chip has an ESP application for ${place}, so nothing would start`;
  throw new McuError('image-unknown', message, { advice: 'give a file that also contains the application' });
}

/** Reads the heads of image and segments only: a ROM takes minutes to read an application. */
function* holdsApplication({ start, sizeBytes }: Partition, chip: Chip, digest: ChipDigest): Conversation<boolean> {
  const end = start + sizeBytes;
  if (end > chip.flash.end) return false;
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

function* readState(digest: ChipDigest, image?: Image): Conversation<ReadState | undefined> {
  const table = yield* readTable(digest);
  const partitions = partitionsIn(overlaid(table, tableAddress, image));
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
      entries: blocks.map(({ address, bytes }) => entryIn(overlaid(bytes, address, image))),
    },
    sectors: blocks.map(({ bytes }) => Buffer.concat([bytes], sectorBytes).fill(0xff, bytes.byteLength)),
  };
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
