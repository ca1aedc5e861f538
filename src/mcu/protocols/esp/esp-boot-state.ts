import { McuError } from '../../errors.ts';
import { endOf } from '../../images/image.ts';
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
  startedBy,
  tableAddress,
  tableBytes,
} from './esp-boot.ts';
import type { BootState } from './esp-boot.ts';
import { sectorBytes } from './esp-chips.ts';
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
export function* bootPlanFor(image: Image, { bootAddress }: EspFamily, digest: ChipDigest): Conversation<BootPlan> {
  const read = yield* readState(digest, image);
  if (read !== undefined) return planBoot(image, read.held, read.state, read.sectors);
  return { image, known: isIn(image, bootAddress) ? 'read-back' : 'sent', guard: undefined, before: undefined };
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
  return yield* verified(tableAddress, Buffer.concat(blocks), digest);
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

/** Returns the bytes, overlaid with the image's bytes. */
function overlaid(bytes: Uint8Array, address: number, image?: Image): Uint8Array {
  const result = Uint8Array.from(bytes);
  for (const segment of image?.segments ?? []) {
    const from = Math.max(address, segment.address);
    const to = Math.min(address + bytes.byteLength, endOf(segment));
    if (from < to) result.set(segment.bytes.subarray(from - segment.address, to - segment.address), from - address);
  }
  return result;
}
