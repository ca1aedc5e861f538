import { execFile } from 'node:child_process';
import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { promisify } from 'node:util';

import type { RunProgram } from '../../../../src/slots/bootloaders/boot-programs.ts';
import type { Bootloader, SlotName } from '../../../../src/update/ports.ts';
import { Power } from '../../../stand-ins/machine/power.ts';
import type { BootRig } from './bootloader-contract.ts';
import { GatewayFolder, opened, plainNames } from './gateway-folder.ts';
import type { SettingsOfBootloader } from './gateway-folder.ts';
import { poweredRun } from './powered-edges.ts';

const run = promisify(execFile);
const shippedHandler = new URL('custom-handler.sh', import.meta.url);

/** A handler of a few lines of sh. Its kernel command line names no slot: `get-current` does. */
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
    await writeFile(rig.folder.file('handler-state'), 'ORDER="A"\nA_LEFT=3\nB_LEFT=0\nCURRENT=A\n');
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
    await run(this.settings.handler, ['boot']);
    const slot = /^CURRENT=([AB])$/m.exec(await readFile(this.folder.file('handler-state'), 'utf8'))?.[1];
    if (slot !== 'A' && slot !== 'B') throw new Error('no slot boots');
    this.folder.booted = slot;
    await writeFile(this.folder.file('cmdline'), 'console=ttyS0 quiet\n');
    return slot;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.folder[Symbol.asyncDispose]();
  }
}
