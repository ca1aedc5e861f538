import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { open } from 'node:fs/promises';

import type { LargeContent } from '../../unit-and-integration/firmware/artifact/build-artifact.ts';
import { randomContent } from '../service/firmware-content.ts';
import type { FirmwareContent } from '../service/firmware-content.ts';

const MIB = 1024 * 1024;

/** 4.2 GiB, and not a whole number of pages. */
export const LARGE_BYTES = 2 ** 32 + 213 * MIB + 4099;
export const LARGE_SLOT_BYTES = 2 ** 32 + 256 * MIB;

type Marks = readonly { readonly start: number; readonly bytes: Buffer }[];

/** Returns the nonzero parts of an image: around the offsets at which 31 and 32 bits end, and at both ends. */
function marksOf(sizeBytes: number): Marks {
  const places = [0, 2 ** 31 - 70_001, 2 ** 32 - 100_003, 2 ** 32 + 100 * MIB];
  return [...places.filter((start) => start < sizeBytes - MIB), sizeBytes - 150_000].map((start, index) => ({
    start,
    bytes: randomContent(150_000, index + 1).read(0, 150_000),
  }));
}

/** An image of this size, made where it is read. */
export function largeImage(sizeBytes = LARGE_BYTES): FirmwareContent {
  const marks = marksOf(sizeBytes);
  return {
    sizeBytes,
    read: (offset, length) => {
      const bytes = Buffer.alloc(Math.min(length, sizeBytes - offset));
      for (const mark of marks) {
        const from = Math.max(offset, mark.start);
        const to = Math.min(offset + bytes.byteLength, mark.start + mark.bytes.byteLength);
        if (from < to) mark.bytes.copy(bytes, from - offset, from - mark.start, to - mark.start);
      }
      return bytes;
    },
  };
}

/** The same for an artifact. Its digest is known, because computing it takes as long as installing. */
export const largePayload: LargeContent = {
  sizeBytes: LARGE_BYTES,
  sha256: 'a068d2fab2a69c1e60cc48ba8da35812e4e7a3738721c2f206f14470d0736ee2',
  chunks: async function* chunks() {
    const image = largeImage();
    for (let offset = 0; offset < LARGE_BYTES; offset += MIB) yield image.read(offset, MIB);
  },
};

/** Returns the first tested offset at which the slot differs from the image, or undefined. */
export async function firstDifference(slotPath: string, sizeBytes = LARGE_BYTES): Promise<number | undefined> {
  await using slot = await open(slotPath, 'r');
  const [image, marks] = [largeImage(sizeBytes), marksOf(sizeBytes)];
  const gaps = marks.map(({ start, bytes }) => start + bytes.byteLength).filter((at) => at < sizeBytes);
  for (const around of [...marks.map(({ start }) => start), ...gaps]) {
    const start = Math.max(0, around - 10_000);
    const wanted = image.read(start, 170_000);
    const { buffer } = await slot.read(Buffer.alloc(wanted.byteLength), 0, wanted.byteLength, start);
    const at = buffer.findIndex((byte, index) => byte !== wanted[index]);
    if (at !== -1) return start + at;
  }
  return undefined;
}

const LOOK_EVERY_MS = 20;

/** The most memory that the program ever had until it ends: VmHWM of proc(5), /proc/pid/status. */
export async function peakRssMiB(program: ChildProcess): Promise<number> {
  let peakKib = 0;
  const look = (): void => {
    const kib = /^VmHWM:\s+(\d+) kB$/m.exec(statusOf(program))?.[1];
    if (kib !== undefined) peakKib = Number(kib);
  };
  const timer = setInterval(look, LOOK_EVERY_MS);
  await once(program, 'exit');
  clearInterval(timer);
  return peakKib / 1024;
}

function statusOf({ pid }: ChildProcess): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error) return '';
    throw error;
  }
}
