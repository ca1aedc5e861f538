import { copyFile, mkdtemp, open, readFile, rename, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { attachLoop, run } from '../../unit-and-integration/slots/loop-device.ts';

const FILE_SYSTEM_BYTES = 8 * 1024 * 1024;
const COPIES_UNTIL_STILL = 50;

const parts = ['files', 'slot-a', 'slot-b'] as const;
type Part = (typeof parts)[number];
type ByPart = Readonly<Record<Part, string>>;

/** Content of the backing files at one instant. */
export interface DiskImage {
  readonly files: ByPart;
}

/**
 * Storage of a gateway: a file system and two slots, on loop devices. Their backing files have the content after a
 * power loss; the gateway continues with copies of them. The slots are named by links, as `/dev/disk/by-partlabel`
 * does.
 */
export class MortalDisk implements AsyncDisposable {
  /** A directory of the file system. */
  readonly folder: string;
  readonly slots: { readonly A: string; readonly B: string };
  readonly #base: string;
  #image: DiskImage;
  #devices: ByPart | undefined;
  #generation = 0;

  private constructor(base: string, image: DiskImage) {
    this.#base = base;
    this.#image = image;
    this.folder = join(base, 'gateway');
    this.slots = { A: join(base, 'slot-a'), B: join(base, 'slot-b') };
  }

  static async create(slotBytes: number): Promise<MortalDisk> {
    const base = await mkdtemp(join(tmpdir(), 'mortal-'));
    const image = imageIn(base, 0);
    await makeSparse(image.files.files, FILE_SYSTEM_BYTES);
    await makeSparse(image.files['slot-a'], slotBytes);
    await makeSparse(image.files['slot-b'], slotBytes);
    await run('mkfs.ext4', '-q', '-F', image.files.files);
    await run('mkdir', join(base, 'gateway'));
    const disk = new MortalDisk(base, image);
    await disk.#attach();
    return disk;
  }

  /** Everything that was written survives from now on. */
  async flush(): Promise<void> {
    await run('sync', '--file-system', this.folder);
    for (const slot of Object.values(this.slots)) await run('sync', slot);
  }

  /**
   * Copies the backing files in their current state. Writers must be frozen; the kernel may still be writing, so the
   * copy is repeated until two copies are equal.
   */
  async snapshot(): Promise<DiskImage> {
    this.#generation += 1;
    const image = imageIn(this.#base, this.#generation);
    let before: readonly Buffer[] = [];
    for (let copies = 0; copies < COPIES_UNTIL_STILL; copies += 1) {
      const now: Buffer[] = [];
      for (const part of parts) {
        await copyFile(this.#image.files[part], image.files[part]);
        now.push(await readFile(image.files[part]));
      }
      if (now.every((bytes, index) => before[index]?.equals(bytes) === true)) return image;
      before = now;
    }
    throw new Error('the backing files never come to rest');
  }

  /**
   * Restarts the machine after a power loss with this image. Other data is lost. The disk must be unused during this.
   */
  async restart(image: DiskImage): Promise<void> {
    await this.#detach();
    for (const part of parts) await rm(this.#image.files[part]);
    this.#image = image;
    await this.#attach();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#detach();
    await rm(this.#base, { recursive: true });
  }

  /** Cruel where Linux may be: no flushing because a file was replaced, and not every five seconds either. */
  async #attach(): Promise<void> {
    const { files } = this.#image;
    const devices = {
      files: await attachLoop(files.files),
      'slot-a': await attachLoop(files['slot-a']),
      'slot-b': await attachLoop(files['slot-b']),
    };
    this.#devices = devices;
    await link(devices['slot-a'], this.slots.A);
    await link(devices['slot-b'], this.slots.B);
    await run('mount', '-o', 'noauto_da_alloc,commit=300', devices.files, this.folder);
  }

  async #detach(): Promise<void> {
    if (this.#devices === undefined) return;
    await run('umount', this.folder);
    for (const part of parts) await run('losetup', '--detach', this.#devices[part]);
    this.#devices = undefined;
  }
}

function imageIn(base: string, generation: number): DiskImage {
  const path = (part: Part): string => join(base, `${part}.${generation}.img`);
  return { files: { files: path('files'), 'slot-a': path('slot-a'), 'slot-b': path('slot-b') } };
}

async function makeSparse(path: string, sizeBytes: number): Promise<void> {
  await using file = await open(path, 'w');
  await file.truncate(sizeBytes);
}

async function link(target: string, path: string): Promise<void> {
  await symlink(target, `${path}.new`);
  await rename(`${path}.new`, path);
}
