import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { agentFiles, imageScripts } from '../../fakes/machine/booting/disk-images.ts';
import { partitionOf } from './disk/recording.ts';
import type { Happening, Recording } from './disk/recording.ts';
import { SECTOR } from './disk/write-log.ts';
import type { DiskEvent } from './disk/write-log.ts';
import { partitionsOf } from './record.ts';

/** A disk with small slots that hold no Linux, and a history that a test makes up: what GRUB makes of it is real. */
export class DrawnGateway implements Disposable {
  readonly folder = mkdtempSync(join(tmpdir(), 'drawn-gateway-'));
  readonly disk = join(this.folder, 'base.img');
  readonly #events: DiskEvent[] = [];
  readonly #happenings: Happening[] = [];
  readonly #images: Record<string, string> = {};
  readonly #kernels: Record<string, string> = {};
  #position = 0;

  /** `pairs`: a slot is two partitions. */
  constructor(partitions: 'single' | 'pairs' = 'single') {
    for (const version of ['v1', 'v2']) {
      this.#images[version] = this.#image(version);
      if (partitions === 'pairs') this.#kernels[version] = this.#kernelOf(version);
    }
    const given = ['--slot', this.#images['v1'] ?? '', '--out', this.disk, '--boot-size', '8', '--state-size', '4'];
    if (partitions === 'pairs') given.push('--kernel', this.#kernelOf('v1'));
    execFileSync(join(imageScripts, 'grub'), given);
    copyFileSync(this.disk, this.#now);
  }

  image(version: string): Buffer {
    return readFileSync(this.#images[version] ?? '');
  }

  kernel(version: string): Buffer {
    return readFileSync(this.#kernels[version] ?? '');
  }

  async write(partition: string, offsetSectors: number, data: Buffer): Promise<this> {
    const { sector } = partitionOf({ partitions: await partitionsOf(this.disk) }, partition);
    this.#push({ kind: 'write', sector: sector + offsetSectors, data });
    return this;
  }

  flush(): this {
    this.#push({ kind: 'flush', sector: 0, data: Buffer.alloc(0) });
    return this;
  }

  /** As GRUB writes its environment: in place. */
  async setEnvironment(assignments: string): Promise<this> {
    const before = readFileSync(this.#now);
    const folder = join(this.folder, 'emu');
    mkdirSync(folder, { recursive: true });
    const names = assignments.split(';').map((assignment) => assignment.trim().split('=')[0]);
    const lines = assignments.split(';').map((assignment) => `set ${assignment.trim()}`);
    const place = 'set root=(hd0,gpt1)\nset prefix=(hd0,gpt1)/grub\nload_env\n';
    writeFileSync(join(folder, 'device.map'), `(hd0) ${this.#now}\n`);
    writeFileSync(join(folder, 'grub.cfg'), `${place}${lines.join('\n')}\nsave_env ${names.join(' ')}\nhalt\n`);
    execFileSync('grub-emu', ['-m', join(folder, 'device.map'), '-d', folder], {
      stdio: ['ignore', 'ignore', 'ignore'],
    });
    const after = readFileSync(this.#now);
    for (let at = 0; at < after.byteLength; at += SECTOR) {
      if (before.compare(after, at, at + SECTOR, at, at + SECTOR) === 0) continue;
      this.#push({ kind: 'write', sector: at / SECTOR, data: after.subarray(at, at + SECTOR) });
    }
    return this;
  }

  wants(version: string): this {
    this.#happenings.push({ kind: 'wanted', at: this.#position, version });
    return this;
  }

  knows(version: string): this {
    const thing = { thingId: 't', serialNumber: 's', apiKey: 'k', activations: 1, currentVersionId: version };
    this.#happenings.push({ kind: 'known', at: this.#position, thing });
    return this;
  }

  async recording(): Promise<Recording> {
    return {
      scene: 'drawn',
      bootType: 'ext4',
      cycles: 1,
      seconds: 0,
      firmware: {},
      kernels: this.#kernels,
      boards: {},
      boardWrites: [],
      images: this.#images,
      partitions: await partitionsOf(this.disk),
      happenings: this.#happenings,
      folder: this.folder,
      base: this.disk,
      events: this.#events,
    };
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true });
  }

  get #now(): string {
    return join(this.folder, 'now.img');
  }

  #push({ kind, sector, data }: Pick<DiskEvent, 'kind' | 'sector' | 'data'>): void {
    this.#position += SECTOR + data.byteLength;
    const sectors = data.byteLength / SECTOR;
    this.#events.push({ kind, sector, sectors, data, isDurable: false, position: this.#position });
  }

  #kernelOf(version: string): string {
    return join(this.folder, `${version}.kernel.ext4`);
  }

  #image(version: string): string {
    const root = join(this.folder, version);
    const parts = [...agentFiles, 'vmlinuz', 'initrd.img', 'version'];
    for (const part of parts) {
      mkdirSync(join(root, part, '..'), { recursive: true });
      writeFileSync(join(root, part), `${version} `.repeat(200_000));
    }
    const image = join(this.folder, `${version}.ext4`);
    const outs = ['--out', image, '--kernel-out', this.#kernelOf(version)];
    execFileSync(join(imageScripts, 'slot'), ['--root', root, ...outs, '--size', '8']);
    return image;
  }
}
