import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, open, readFile, truncate, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join, resolve } from 'node:path';

import type { Bootloader, SlotName } from '../../../src/update/ports.ts';
import { agentFiles } from '../../fakes/machine/booting/disk-images.ts';
import { Power } from '../../fakes/machine/power.ts';
import { tool } from '../../fakes/machine/tool.ts';
import type { BootRig } from '../../unit-and-integration/slots/bootloaders/bootloader-contract.ts';
import { GatewayFolder, opened } from '../../unit-and-integration/slots/bootloaders/gateway-folder.ts';
import type { SettingsOfBootloader } from '../../unit-and-integration/slots/bootloaders/gateway-folder.ts';
import { poweredRun } from '../../unit-and-integration/slots/bootloaders/powered-edges.ts';
import { settingsAt } from '../../unit-and-integration/slots/bootloaders/uboot-rig.ts';

const project = resolve(import.meta.dirname, '../../..');
const scripts = join(project, 'systemd/images');
const uboot = join(project, '.cache/uboot/u-boot.bin');

const MIB = 1024 * 1024;
const SLOT_MIB = 8;
/** Offsets in partition 5, on a disk whose partitions begin at 4 MiB. */
export const ENVIRONMENT = { first: 4 * MIB, second: 4.5 * MIB, bytes: 0x4000 } as const;
const SLOT_START: Readonly<Record<SlotName, number>> = { A: 13 * MIB, B: (13 + SLOT_MIB) * MIB };
const DEADLINE_MS = 120_000;

/** Content of a slot at the kernel's path. */
export type Kernel = 'starts' | 'is none' | 'is missing';

export interface Start {
  /** The tried slot and the kernel's parameters. */
  readonly slot: string;
  readonly told: string;
  readonly end: 'kernel starts' | 'reset';
  readonly console: string;
}

/**
 * A gateway as far as U-Boot goes: a disk of systemd/images/uboot in an emulated arm64 machine, the real U-Boot, and the agent's
 * bootloader with the real fw_setenv on the same disk. Its kernel switches the machine off.
 */
export class UbootMachine implements BootRig {
  readonly power = new Power();
  readonly attempts = 2;
  readonly folder: GatewayFolder;

  #bootloader: Bootloader | undefined;

  private constructor(folder: GatewayFolder) {
    this.folder = folder;
  }

  /** As the factory delivers it: slot B is blank, and so is the environment. */
  static async open(...given: readonly string[]): Promise<UbootMachine> {
    const machine = new UbootMachine(await GatewayFolder.create());
    const run = poweredRun(machine.power, ([name, ...args]) => name === 'fw_setenv' && args.includes('-s'));
    machine.#bootloader = await machine.folder.bootloader(machine.settings, { run });
    const { first, second, bytes } = ENVIRONMENT;
    const lines = [first, second].map((start) => `${machine.disk} ${hex(start)} ${hex(bytes)}`);
    await writeFile(machine.folder.file('fw_env.config'), `${lines.join('\n')}\n`);
    await writeFile(machine.disk, await disks.once(given.join(' '), async () => makeDisk(given)));
    return machine;
  }

  /** It has booted slot A, which is committed; slot B holds something, but was never booted. */
  static async inUse(): Promise<UbootMachine> {
    const machine = await UbootMachine.open();
    await machine.boot();
    await machine.fill('B', 'starts');
    return machine;
  }

  get bootloader(): Bootloader {
    return opened(this.#bootloader);
  }

  get disk(): string {
    return this.folder.file('disk');
  }

  get settings(): SettingsOfBootloader<'uboot'> {
    return settingsAt(this.folder);
  }

  async boot(): Promise<SlotName> {
    this.power.restore();
    const { slot, console } = await this.start();
    if (slot !== 'A' && slot !== 'B') throw new Error(`no slot boots: ${console}`);
    await this.folder.started(slot);
    return slot;
  }

  /**
   * Runs from power-on to a reset, or until a slot's action is complete. `pulled`: the disk does not respond after
   * U-Boot has read its script.
   */
  async start({ pulled = false }: { readonly pulled?: boolean } = {}): Promise<Start> {
    const child = this.#qemu(pulled);
    const ended = once(child, 'close') as Promise<[number | null]>;
    const heard = new Heard(child);
    if (pulled) {
      await heard.until('=> ');
      heard.type('load mmc 0:1 ${scriptaddr} boot.scr');
      await heard.until('bytes read');
      await heard.until('=> ');
      await say(this.folder.file('monitor'), 'eject -f card');
      heard.type('source ${scriptaddr}');
    }
    const [code] = await ended;
    const console = heard.text;
    if (code !== 0) throw new Error(`U-Boot does not come to an end: ${console}`);
    const [, slot = '', told = ''] = /^Slot ([AB]): (.*)$/m.exec(console) ?? [];
    return { slot, told, end: console.includes('Starting kernel') ? 'kernel starts' : 'reset', console };
  }

  async fill(slot: SlotName, kernel: Kernel): Promise<void> {
    await writeAt(this.disk, SLOT_START[slot], await slots.once(kernel, async () => makeSlot(kernel)));
  }

  async blank(slot: SlotName): Promise<void> {
    await writeAt(this.disk, SLOT_START[slot], Buffer.alloc(SLOT_MIB * MIB));
  }

  async environment(): Promise<Readonly<Record<string, string>>> {
    const listed = await tool(['fw_printenv', '-c', this.folder.file('fw_env.config')]);
    const boot = listed.split('\n').filter((line) => line.startsWith('BOOT_'));
    return Object.fromEntries(boot.map((line) => line.split('=') as [string, string]));
  }

  async set(...assignments: readonly string[]): Promise<void> {
    const input = assignments.map((line) => `${line}\n`).join('');
    await tool(['fw_setenv', '-c', this.folder.file('fw_env.config'), '-s', '-'], { input });
  }

  /** Both copies of the environment. */
  async copies(): Promise<readonly [Buffer, Buffer]> {
    const bytes = await readFile(this.disk);
    const copyAt = (start: number) => Buffer.from(bytes.subarray(start, start + ENVIRONMENT.bytes));
    return [copyAt(ENVIRONMENT.first), copyAt(ENVIRONMENT.second)];
  }

  async setCopies(first: Buffer, second: Buffer): Promise<void> {
    await writeAt(this.disk, ENVIRONMENT.first, first);
    await writeAt(this.disk, ENVIRONMENT.second, second);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.folder[Symbol.asyncDispose]();
  }

  #qemu(waits: boolean): ChildProcess {
    const machine = ['-M', 'virt', '-cpu', 'cortex-a53', '-m', '128', '-bios', uboot, '-display', 'none', '-no-reboot'];
    const card = ['-drive', `if=none,id=card,format=raw,file=${this.disk}`, '-device', 'sdhci-pci'];
    const monitor = ['-monitor', waits ? `unix:${this.folder.file('monitor')},server=on,wait=off` : 'none'];
    const rest = ['-device', 'sd-card,drive=card', '-nic', 'none', '-serial', 'stdio', ...monitor];
    const stdio = ['pipe', 'pipe', 'inherit'] as const;
    const child = spawn('qemu-system-aarch64', [...machine, ...card, ...rest], {
      stdio: [...stdio],
      timeout: DEADLINE_MS,
      killSignal: 'SIGKILL',
    });
    // U-Boot stops its automatic start after a key press.
    if (waits) child.stdin?.write(' ');
    return child;
  }
}

/** Files that are made once and used by each machine. */
class Made<Key> {
  readonly #made = new Map<Key, Promise<Buffer>>();

  async once(key: Key, make: () => Promise<Buffer>): Promise<Buffer> {
    const made = this.#made.get(key) ?? make();
    this.#made.set(key, made);
    return made;
  }
}

const disks = new Made<string>();
const slots = new Made<Kernel>();

async function makeDisk(given: readonly string[]): Promise<Buffer> {
  await using folder = await GatewayFolder.create();
  const [slot, disk] = [folder.file('slot'), folder.file('disk')];
  await writeFile(slot, await slots.once('starts', async () => makeSlot('starts')));
  const sizes = ['--slot-size', String(SLOT_MIB), '--state-size', '4'];
  await tool([join(scripts, 'uboot'), '--slot', slot, '--out', disk, ...sizes, ...given]);
  // A memory card has a power of two.
  await truncate(disk, 64 * MIB);
  return await readFile(disk);
}

async function makeSlot(kernel: Kernel): Promise<Buffer> {
  await using folder = await GatewayFolder.create();
  const [root, image] = [folder.file('root'), folder.file('slot')];
  for (const file of agentFiles) {
    await mkdir(join(root, file, '..'), { recursive: true });
    await writeFile(join(root, file), '');
  }
  await writeFile(join(root, 'initrd.img'), 'no archive');
  await writeFile(join(root, 'vmlinuz'), kernel === 'is none' ? 'no kernel' : switchingOff());
  await tool([join(scripts, 'slot'), '--root', root, '--out', image, '--bootloader', 'uboot', '--size', '4']);
  if (kernel === 'is missing') await tool(['debugfs', '-w', '-R', 'rm /vmlinuz', image]);
  return await readFile(image);
}

/** A machine's console output. */
class Heard {
  text = '';
  readonly #child: ChildProcess;
  #read = 0;

  constructor(child: ChildProcess) {
    this.#child = child;
    child.stdout?.setEncoding('latin1');
    child.stdout?.on('data', (chunk: string) => (this.text += chunk.replaceAll('\r', '')));
  }

  /** Waits for this text after the previously awaited one. */
  async until(said: string): Promise<void> {
    const { stdout } = this.#child;
    const signal = AbortSignal.timeout(DEADLINE_MS);
    while (!this.text.includes(said, this.#read)) {
      if (stdout === null || this.#child.exitCode !== null) throw new Error(`it ended: ${this.text}`);
      await once(stdout, 'data', { signal });
    }
    this.#read = this.text.indexOf(said, this.#read) + said.length;
  }

  type(line: string): void {
    this.#child.stdin?.write(`${line}\n`);
  }
}

/** To QEMU's monitor; returns when it was done. */
async function say(socket: string, line: string): Promise<void> {
  const signal = AbortSignal.timeout(DEADLINE_MS);
  const monitor = connect(socket);
  monitor.setEncoding('latin1');
  let text = '';
  monitor.on('data', (chunk: string) => (text += chunk));
  await once(monitor, 'connect', { signal });
  monitor.write(`${line}\n`);
  while ((text.match(/\(qemu\) /g) ?? []).length < 2) await once(monitor, 'data', { signal });
  monitor.destroy();
}

async function writeAt(path: string, position: number, bytes: Buffer): Promise<void> {
  await using file = await open(path, 'r+');
  await file.write(bytes, 0, bytes.byteLength, position);
}

function hex(value: number): string {
  return `0x${value.toString(16)}`;
}

/** An arm64 kernel (Documentation/arch/arm64/booting) of four instructions, which ask the firmware to switch off. */
function switchingOff(): Buffer {
  const image = Buffer.alloc(4096);
  image.writeUInt32LE(0x1400_0010, 0); // branch behind the header
  image.writeBigUInt64LE(BigInt(image.byteLength), 16);
  image.writeBigUInt64LE(0xan, 24); // little-endian, pages of 4 KiB, anywhere in memory
  image.write('ARM\x64', 56, 'latin1');
  const code = [0x5280_0100, 0x72b0_8000, 0xd400_0002, 0x1400_0000]; // w0 = SYSTEM_OFF; hvc #0; stay
  code.forEach((word, index) => image.writeUInt32LE(word, 64 + 4 * index));
  return image;
}
