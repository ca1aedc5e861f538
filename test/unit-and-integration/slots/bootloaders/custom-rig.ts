import { execFile } from 'node:child_process';
import { copyFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import type { RunProgram } from '../../../../src/slots/bootloaders/boot-programs.ts';
import type { Bootloader, SlotName } from '../../../../src/update/ports.ts';
import { Power } from '../../../fakes/machine/power.ts';
import type { BootRig } from './bootloader-contract.ts';
import { GatewayFolder, opened, plainNames } from './gateway-folder.ts';
import type { SettingsOfBootloader } from './gateway-folder.ts';
import { poweredRun } from './powered-edges.ts';

const run = promisify(execFile);
const shippedHandler = join(import.meta.dirname, '../../../fakes/machine/boot-handler');

/** The handler of gateways in a folder. Its kernel command line names no slot: `get-current` does. */
export class CustomRig implements BootRig {
  readonly power = new Power();
  readonly attempts = 2;
  readonly folder: GatewayFolder;
  readonly settings: SettingsOfBootloader<'custom'>;
  /** The calls that change something, in their order. */
  readonly calls: string[] = [];

  #bootloader: Bootloader | undefined;

  private constructor(folder: GatewayFolder) {
    this.folder = folder;
    this.settings = { kind: 'custom', handler: folder.file('handler'), names: plainNames };
  }

  static async open(): Promise<CustomRig> {
    const rig = new CustomRig(await GatewayFolder.create());
    rig.#bootloader = await rig.folder.bootloader(rig.settings, { run: rig.#run() });
    await copyFile(shippedHandler, rig.settings.handler);
    await writeFile(rig.folder.file('environment'), 'ORDER="A" A_LEFT=3 B_LEFT=0 WORD=\n');
    await rig.boot();
    return rig;
  }

  get bootloader(): Bootloader {
    return opened(this.#bootloader);
  }

  #run(): RunProgram {
    const record = (command: readonly string[]): void => void this.calls.push(command.slice(1).join(' '));
    return poweredRun(this.power, ([, call]) => call?.startsWith('set-') === true, record);
  }

  async boot(): Promise<SlotName> {
    this.power.restore();
    const { stdout } = await run(this.settings.handler, ['boot']);
    const slot = stdout.trim();
    if (slot !== 'A' && slot !== 'B') throw new Error('no slot boots');
    this.folder.booted = slot;
    await writeFile(this.folder.file('cmdline'), 'console=ttyS0 quiet\n');
    return slot;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.folder[Symbol.asyncDispose]();
  }
}
