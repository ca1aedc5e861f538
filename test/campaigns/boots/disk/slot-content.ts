import { closeSync, openSync, readFileSync, readSync } from 'node:fs';

import type { Survivor } from './cut.ts';
import type { Partition } from './recording.ts';
import { SECTOR } from './write-log.ts';

/** At most as many as a byte has bits. */
const MOST_IMAGES = 8;

/** Known images, to be compared sector by sector. */
export class KnownImages {
  readonly names: readonly string[];
  readonly #images: readonly Buffer[];

  constructor(paths: Readonly<Record<string, string>>) {
    this.names = Object.keys(paths);
    if (this.names.length > MOST_IMAGES) throw new Error(`at most ${MOST_IMAGES} images`);
    this.#images = Object.values(paths).map((path) => readFileSync(path));
  }

  sectorsOf(image: number): number {
    return (this.#images[image]?.byteLength ?? 0) / SECTOR;
  }

  /** For each sector, in which images it is the same at this place; beyond its end an image is content with anything. */
  compare(firstSector: number, data: Buffer): Uint8Array {
    const result = new Uint8Array(data.byteLength / SECTOR);
    for (const [number, image] of this.#images.entries()) {
      for (let at = 0; at < result.length; at += 1) {
        const place = (firstSector + at) * SECTOR;
        const isSame =
          place >= image.byteLength || data.compare(image, place, place + SECTOR, at * SECTOR, (at + 1) * SECTOR) === 0;
        if (isSame) result[at] = (result[at] ?? 0) | (1 << number);
      }
    }
    return result;
  }
}

/** Which known images a slot holds as a whole, kept up to date sector by sector. */
export class SlotContent {
  readonly #known: KnownImages;
  readonly #partition: Partition;
  readonly #sectors: Uint8Array;
  readonly #differing: number[];
  #undo: { readonly at: number; readonly before: Uint8Array }[] = [];

  constructor(disk: string, partition: Partition, known: KnownImages) {
    this.#known = known;
    this.#partition = partition;
    this.#sectors = known.compare(0, readArea(disk, partition));
    this.#differing = known.names.map((_, image) => {
      let count = 0;
      for (const mask of this.#sectors) if ((mask & (1 << image)) === 0) count += 1;
      return count;
    });
  }

  /** The versions whose image is here, byte for byte. */
  get whole(): readonly string[] {
    return this.#known.names.filter((_, image) => this.#differing[image] === 0);
  }

  keep(survivor: Survivor, masks: Uint8Array): void {
    this.#apply(survivor, masks);
  }

  lay(survivor: Survivor, masks: Uint8Array): void {
    const at = survivor.event.sector - this.#partition.sector;
    this.#undo.push({ at, before: this.#sectors.slice(at, at + survivor.event.sectors) });
    this.#apply(survivor, masks);
  }

  takeAway(): void {
    for (const { at, before } of this.#undo.toReversed()) {
      for (const [offset, mask] of before.entries()) this.#set(at + offset, mask);
    }
    this.#undo = [];
  }

  #apply({ event, arrived }: Survivor, masks: Uint8Array): void {
    const at = event.sector - this.#partition.sector;
    for (const [offset, mask] of masks.entries()) {
      if (arrived === undefined || arrived[offset] === true) this.#set(at + offset, mask);
    }
  }

  #set(at: number, mask: number): void {
    const changed = (this.#sectors[at] ?? 0) ^ mask;
    if (changed === 0) return;
    for (let image = 0; image < this.#differing.length; image += 1) {
      if ((changed & (1 << image)) === 0) continue;
      this.#differing[image] = (this.#differing[image] ?? 0) + ((mask & (1 << image)) === 0 ? 1 : -1);
    }
    this.#sectors[at] = mask;
  }
}

function readArea(disk: string, { sector, sectors }: Partition): Buffer {
  const area = Buffer.alloc(sectors * SECTOR);
  const descriptor = openSync(disk, 'r');
  try {
    let filled = 0;
    while (filled < area.byteLength) {
      const got = readSync(descriptor, area, filled, area.byteLength - filled, sector * SECTOR + filled);
      if (got === 0) break;
      filled += got;
    }
  } finally {
    closeSync(descriptor);
  }
  return area;
}
