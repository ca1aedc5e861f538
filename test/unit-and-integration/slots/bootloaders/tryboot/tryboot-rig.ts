import { readFile, writeFile } from 'node:fs/promises';

import type { Bootloader, SlotName } from '../../../../../src/update/ports.ts';
import { Power } from '../../../../fakes/machine/power.ts';
import type { BootRig } from '../bootloader-contract.ts';
import { GatewayFolder, opened } from '../gateway-folder.ts';
import type { SettingsOfBootloader } from '../gateway-folder.ts';
import { PoweredFs } from '../powered-edges.ts';

export const factoryAutoboot = '[all]\ntryboot_a_b=1\nboot_partition=2\n[tryboot]\nboot_partition=2\n';

/** A folder that stands for the boot partition, and the Raspberry Pi's choice as its documentation tells it. */
export class TrybootRig implements BootRig {
  readonly power = new Power();
  readonly attempts = 9;
  readonly folder: GatewayFolder;
  readonly settings: SettingsOfBootloader<'tryboot'>;
  readonly #fs = new PoweredFs(this.power, 'with journal');

  #bootloader: Bootloader | undefined;

  private constructor(folder: GatewayFolder) {
    this.folder = folder;
    this.settings = { kind: 'tryboot', autoboot: folder.file('autoboot.txt'), partitions: { A: 2, B: 3 } };
  }

  static async open(text = factoryAutoboot): Promise<TrybootRig> {
    const rig = new TrybootRig(await GatewayFolder.create());
    rig.#bootloader = await rig.folder.bootloader(rig.settings, { fs: rig.#fs.api });
    await rig.write(text);
    await rig.boot();
    return rig;
  }

  get bootloader(): Bootloader {
    return opened(this.#bootloader);
  }

  async boot(rebootArgument?: string): Promise<SlotName> {
    await this.#fs.lose();
    this.power.restore();
    const partition = chosenPartition(await this.read(), rebootArgument === '0 tryboot');
    const slot = partition === 2 ? 'A' : 'B';
    if (partition !== 2 && partition !== 3) throw new Error(`boots partition ${partition}`);
    await this.folder.started(slot, partition);
    return slot;
  }

  read(): Promise<string> {
    return readFile(this.settings.autoboot, 'utf8');
  }

  async write(text: string): Promise<void> {
    await writeFile(this.settings.autoboot, text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.folder[Symbol.asyncDispose]();
  }
}

/**
 * The firmware reads the first 512 bytes, line by line; the last line whose filter passes wins. Without tryboot_a_b a
 * trial looks for tryboot.txt, which is not there, and the next boot is an ordinary one.
 */
export function chosenPartition(text: string, tryboot: boolean): number {
  let passes = true;
  let partition = 0;
  let partitionsAreTried = false;
  for (const line of text.slice(0, 512).split(/\r?\n/)) {
    if (line.startsWith('[')) passes = line === '[all]' || (line === '[tryboot]' && tryboot);
    const [key, value] = line.split('=');
    if (passes && key === 'boot_partition') partition = Number(value);
    if (passes && key === 'tryboot_a_b') partitionsAreTried = value === '1';
  }
  return tryboot && !partitionsAreTried ? chosenPartition(text, false) : partition;
}
