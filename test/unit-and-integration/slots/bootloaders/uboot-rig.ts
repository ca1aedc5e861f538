import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { promisify } from 'node:util';

import type { RunProgram } from '../../../../src/slots/bootloaders/boot-programs.ts';
import type { Bootloader, SlotName } from '../../../../src/update/ports.ts';
import { Power } from '../../../fakes/machine/power.ts';
import type { BootRig } from './bootloader-contract.ts';
import { bootloaderBlock } from './bootloader-pages.ts';
import { GatewayFolder, opened, plainNames } from './gateway-folder.ts';
import type { SettingsOfBootloader } from './gateway-folder.ts';
import { poweredRun } from './powered-edges.ts';

const run = promisify(execFile);
const ENVIRONMENT_BYTES = 0x2000;

/** Commands of U-Boot's shell that bash lacks, for the same environment file. */
const commands = String.raw`
setenv() { local name=$1; shift; if [ $# -eq 0 ]; then unset "$name"; else printf -v "$name" %s "$*"; fi; }
setexpr() { printf -v "$1" %x $(($2 $3 $4)); }
test() { if [ "$2" = -gt ]; then (($1 > $3)); else builtin test "$@"; fi; }
run() { case " $THERE " in *" $1 "*) true ;; *) false ;; esac; }
saveenv() {
  [ -z "$READ_ONLY" ] || return 1
  printf '%s\n' "BOOT_ORDER=$BOOT_ORDER" "BOOT_A_LEFT=$BOOT_A_LEFT" "BOOT_B_LEFT=$BOOT_B_LEFT" |
    fw_setenv -c "$CONFIG" -f "$EMPTY" -s -
}
while IFS='=' read -r name value; do setenv "$name" "$value"; done < <(fw_printenv -c "$CONFIG" -f "$EMPTY")
`;
const bootScript = `${commands}\n${bootloaderBlock('sh u-boot')}\necho "slot=$slot args=$slot_args"`;

export interface UbootTrouble {
  /** The environment cannot be saved. */
  readonly readOnly?: boolean;
  readonly there?: readonly SlotName[];
}

/** The variables of the documentation's script; `fw_env.config` is in the folder. */
export function settingsAt(folder: GatewayFolder): SettingsOfBootloader<'uboot'> {
  return {
    kind: 'uboot',
    fwEnvConfig: folder.file('fw_env.config'),
    orderVariable: 'BOOT_ORDER',
    leftVariable: 'BOOT_{slot}_LEFT',
    trialVariable: 'BOOT_TRIAL',
    attempts: 3,
    names: plainNames,
  };
}

/** An environment file of the real tools, and the boot script of README.md run by bash. */
export class UbootRig implements BootRig {
  readonly power = new Power();
  readonly attempts = 2;
  readonly folder: GatewayFolder;

  #bootloader: Bootloader | undefined;

  private constructor(folder: GatewayFolder) {
    this.folder = folder;
  }

  static async open(copies: 1 | 2): Promise<UbootRig> {
    const folder = await GatewayFolder.create();
    const rig = new UbootRig(folder);
    rig.#bootloader = await folder.bootloader(rig.settings, { run: rig.run });
    const lines = [`${rig.file} 0x0000 0x2000`, `${rig.file} 0x2000 0x2000`].slice(0, copies);
    await writeFile(folder.file('fw_env.config'), `# device offset size\n${lines.join('\n')}\n`);
    await writeFile(rig.file, Buffer.alloc(copies * ENVIRONMENT_BYTES, 0xff));
    await writeFile(folder.file('empty'), 'board=test\n');
    await writeFile(folder.file('factory'), 'BOOT_ORDER=A\nBOOT_A_LEFT=3\nBOOT_B_LEFT=0\nboard=test\n');
    await rig.setFromFile('factory');
    await rig.boot();
    return rig;
  }

  get bootloader(): Bootloader {
    return opened(this.#bootloader);
  }

  get file(): string {
    return this.folder.file('environment');
  }

  get settings(): SettingsOfBootloader<'uboot'> {
    return settingsAt(this.folder);
  }

  get run(): RunProgram {
    return poweredRun(this.power, ([tool, ...args]) => tool === 'fw_setenv' && args.includes('-s'));
  }

  async boot(): Promise<SlotName> {
    this.power.restore();
    const { slot } = await this.choose();
    if (slot !== 'A' && slot !== 'B') throw new Error(`no slot boots: ${slot}`);
    await this.folder.started(slot);
    return slot;
  }

  /** Returns U-Boot's choice, and its parameters for Linux. `there`: the slots with content. */
  async choose({ readOnly = false, there = [] }: UbootTrouble = {}): Promise<{
    readonly slot: string;
    readonly args: string;
  }> {
    const env = {
      ...process.env,
      CONFIG: this.folder.file('fw_env.config'),
      EMPTY: this.folder.file('empty'),
      READ_ONLY: readOnly ? '1' : '',
      THERE: there.map((slot) => `has_slot_${slot.toLowerCase()}`).join(' '),
    };
    const { stdout } = await run('bash', ['-c', bootScript], { env });
    const [, slot = '', args = ''] = /^slot=(.*) args=(.*)$/m.exec(stdout) ?? [];
    return { slot, args };
  }

  async set(...assignments: readonly string[]): Promise<void> {
    await writeFile(this.folder.file('assignments'), assignments.map((line) => `${line}\n`).join(''));
    await this.setFromFile('assignments');
  }

  async setFromFile(name: string): Promise<void> {
    const args = [
      '-c',
      this.folder.file('fw_env.config'),
      '-f',
      this.folder.file('factory'),
      '-s',
      this.folder.file(name),
    ];
    await run('fw_setenv', args);
  }

  async get(name: string): Promise<string> {
    const { stdout } = await run('fw_printenv', ['-c', this.folder.file('fw_env.config'), '-n', name]);
    return stdout.trimEnd();
  }

  bytes(): Promise<Buffer> {
    return readFile(this.file);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.folder[Symbol.asyncDispose]();
  }
}
