import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

import type { GrubSettings } from '../../../../src/config/config.ts';
import type { Bootloader, SlotName } from '../../../../src/update/ports.ts';
import { Power } from '../../../stand-ins/machine/power.ts';
import type { BootRig } from './bootloader-contract.ts';
import { GatewayFolder, plainNames } from './gateway-folder.ts';
import { PoweredFs } from './powered-edges.ts';
import { readmeScript } from './readme-script.ts';

const run = promisify(execFile);

/** What GRUB's shell has and bash has not, over the same environment block. */
const commands = String.raw`
set() { printf -v "${'${1%%=*}'}" %s "${'${1#*=}'}"; }
load_env() { while IFS='=' read -r name value; do set "$name=$value"; done < <(grub-editenv "$GRUBENV" list); }
save_env() { local name pairs=(); for name; do pairs+=("$name=${'${!name}'}"); done; grub-editenv "$GRUBENV" set "${'${pairs[@]}'}"; }
`;

/** A grubenv of the real tool, and the selection of README.md's grub.cfg run by bash. */
export class GrubRig implements BootRig {
  readonly power = new Power();
  readonly attempts: number;
  readonly settings: GrubSettings;
  readonly folder: GatewayFolder;
  readonly bootloader: Bootloader;
  readonly #fs = new PoweredFs(this.power, 'without journal');

  private constructor(folder: GatewayFolder, attempts: number) {
    this.folder = folder;
    this.attempts = attempts - 1;
    this.settings = { kind: 'grub', environment: folder.file('grubenv'), attempts, names: plainNames };
    this.bootloader = folder.bootloader(this.settings, { fs: this.#fs.api });
  }

  static async open(attempts: number): Promise<GrubRig> {
    const rig = new GrubRig(await GatewayFolder.create(), attempts);
    await run('grub-editenv', [rig.file, 'create']);
    await rig.set(`ATTEMPTS=${attempts}`, 'mine=kept');
    await rig.boot();
    return rig;
  }

  get file(): string {
    return this.folder.file('grubenv');
  }

  async boot(): Promise<SlotName> {
    await this.#fs.lose();
    this.power.restore();
    const script = `${commands}\n${readmeScript('grub')}\necho "slot=$SLOT"`;
    const { stdout } = await run('bash', ['-c', script], { env: { ...process.env, GRUBENV: this.file } });
    const slot = /^slot=([AB])$/m.exec(stdout)?.[1];
    if (slot !== 'A' && slot !== 'B') throw new Error(`no slot boots: ${stdout}`);
    await this.folder.started(slot);
    return slot;
  }

  async set(...assignments: readonly string[]): Promise<void> {
    await run('grub-editenv', [this.file, 'set', ...assignments]);
  }

  async list(): Promise<readonly string[]> {
    const { stdout } = await run('grub-editenv', [this.file, 'list']);
    return stdout.trimEnd().split('\n').sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.folder[Symbol.asyncDispose]();
  }
}
