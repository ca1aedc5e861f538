import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { createBootloader } from '../../../../src/slots/bootloaders/create-bootloader.ts';
import type { BootloaderDeps } from '../../../../src/slots/bootloaders/create-bootloader.ts';
import type { BootloaderSettings, BootingSlotsSettings } from '../../../../src/slots/settings.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import type { Bootloader, SlotName } from '../../../../src/update/ports.ts';

export type SettingsOfBootloader<K extends BootloaderSettings['kind']> = Extract<
  BootloaderSettings,
  { readonly kind: K }
>;

/** A file system in memory, where there is one: the power cuts are ours, and a disk's fsync takes most of the time. */
const parent = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

export const plainNames = { A: 'A', B: 'B' } as const;

/** Returns an open part of a rig. */
export function opened<T>(part: T | undefined): T {
  if (part === undefined) throw new Error('the rig is not open yet');
  return part;
}

/** A folder that stands for a gateway: kernel command line, device tree, and the bootloader's own files. */
export class GatewayFolder implements AsyncDisposable {
  readonly path: string;
  booted: SlotName = 'A';
  /** The mounted slot, if it differs from the booted one. */
  mounted: SlotName | undefined | 'as booted' = 'as booted';

  private constructor(path: string) {
    this.path = path;
  }

  static async create(): Promise<GatewayFolder> {
    return new GatewayFolder(await mkdtemp(join(parent, 'gateway-')));
  }

  file(name: string): string {
    return join(this.path, name);
  }

  async bootloader(settings: BootloaderSettings, surroundings: Partial<BootloaderDeps> = {}): Promise<Bootloader> {
    const target: BootingSlotsSettings = {
      kind: 'slots',
      name: 'gateway',
      slots: { A: this.file('slot-a'), B: this.file('slot-b') },
      readOnly: undefined,
      bootloader: settings,
    };
    return createBootloader(target, {
      mountedSlot: async () => (this.mounted === 'as booted' ? this.booted : this.mounted),
      log: silentLog,
      commandLine: this.file('cmdline'),
      deviceTreePartition: this.file('partition'),
      ...surroundings,
    });
  }

  /** Shows a boot as Linux sees it. */
  async started(slot: SlotName, partition = 0): Promise<void> {
    this.booted = slot;
    await writeFile(this.file('cmdline'), `console=ttyS0 quiet thing.slot=${slot}\n`);
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(partition);
    await writeFile(this.file('partition'), bytes);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.path, { recursive: true });
  }
}
