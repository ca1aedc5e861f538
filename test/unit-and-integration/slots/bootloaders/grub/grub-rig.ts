import { execFile } from 'node:child_process';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { promisify } from 'node:util';

import type { Bootloader, SlotName } from '../../../../../src/update/ports.ts';
import { Power } from '../../../../fakes/machine/power.ts';
import type { BootRig } from '../bootloader-contract.ts';
import { bootloaderBlock } from '../bootloader-pages.ts';
import { GatewayFolder, opened, plainNames } from '../gateway-folder.ts';
import type { SettingsOfBootloader } from '../gateway-folder.ts';
import { PoweredFs } from '../powered-edges.ts';

const run = promisify(execFile);

/** Commands of GRUB's shell that bash lacks, for the same environment block. */
const commands = String.raw`
set() { printf -v "${'${1%%=*}'}" %s "${'${1#*=}'}"; }
insmod() { true; }
regexp() { [[ $2 =~ $1 ]]; }
load_env() {
  local file="$prefix/grubenv" text
  if [ "$1" = --file ]; then file=$2; fi
  [ -f "$file" ] || return 1
  text=$(grub-editenv "$file" list) || return 1
  while IFS='=' read -r name value; do if [ -n "$name" ]; then set "$name=$value"; fi; done <<<"$text"
}
save_env() {
  local file=$2 name pairs=()
  shift 2
  [ -z "$READ_ONLY" ] || return 1
  for name; do pairs+=("$name=${'${!name}'}"); done
  grub-editenv "$file" set "${'${pairs[@]}'}"
}
`;

/** Faults at a boot. */
export interface GrubTrouble {
  /** GRUB cannot write. */
  readonly readOnly?: boolean;
  readonly minute?: number;
}

/** A grubenv of the real tool, and the selection of README.md's grub.cfg run by bash. */
export class GrubRig implements BootRig {
  readonly power = new Power();
  readonly attempts: number;
  readonly settings: SettingsOfBootloader<'grub'>;
  readonly folder: GatewayFolder;
  readonly #fs = new PoweredFs(this.power, 'without journal');

  #bootloader: Bootloader | undefined;

  private constructor(folder: GatewayFolder, attempts: number) {
    this.folder = folder;
    this.attempts = attempts - 1;
    this.settings = { kind: 'grub', environment: folder.file('grubenv'), attempts, names: plainNames };
  }

  static async open(attempts: number): Promise<GrubRig> {
    const rig = new GrubRig(await GatewayFolder.create(), attempts);
    rig.#bootloader = await rig.folder.bootloader(rig.settings, { fs: rig.#fs.api });
    await run('grub-editenv', [rig.file, 'create']);
    await rig.fill('A', true);
    await rig.set(`ATTEMPTS=${attempts}`, 'mine=kept');
    await rig.boot();
    await rig.fill('B', true);
    return rig;
  }

  get bootloader(): Bootloader {
    return opened(this.#bootloader);
  }

  get file(): string {
    return this.folder.file('grubenv');
  }

  async boot(): Promise<SlotName> {
    await this.#fs.lose();
    this.power.restore();
    const { slot } = await this.choose();
    if (slot !== 'A' && slot !== 'B') throw new Error(`no slot boots: ${slot}`);
    await this.folder.started(slot);
    return slot;
  }

  /** Returns GRUB's choice, and its parameters for Linux. */
  async choose({ readOnly = false, minute = 0 }: GrubTrouble = {}): Promise<{
    readonly slot: string;
    readonly told: string;
  }> {
    const script = bootloaderBlock('sh grub').replaceAll(/\(hd0,gpt(\d)\)/g, (_, gpt) =>
      this.folder.file(`slot-${gpt}`),
    );
    const env = { ...process.env, prefix: this.folder.path, READ_ONLY: readOnly ? '1' : '', MINUTE: String(minute) };
    const { stdout } = await run('bash', ['-c', `${commands}\n${script}\necho "slot=$SLOT told=$TOLD"`], { env });
    const [, slot = '', told = ''] = /^slot=(.*) told=(.*)$/m.exec(stdout) ?? [];
    return { slot, told };
  }

  /** Makes a slot with a kernel, or one without. */
  async fill(slot: SlotName, isThere: boolean): Promise<void> {
    const kernel = this.folder.file(slot === 'A' ? 'slot-2/vmlinuz' : 'slot-3/vmlinuz');
    if (!isThere) return rm(kernel, { force: true });
    await mkdir(dirname(kernel), { recursive: true });
    await writeFile(kernel, '');
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
