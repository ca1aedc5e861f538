import { cp, mkdir, readdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { RunProgram } from '../../../../../src/slots/bootloaders/boot-programs.ts';
import { runProgram } from '../../../../../src/system/processes/child-process.ts';
import type { Bootloader, SlotName } from '../../../../../src/update/ports.ts';
import { Power } from '../../../../fakes/machine/power.ts';
import { tool } from '../../../../fakes/machine/tool.ts';
import type { BootRig } from '../bootloader-contract.ts';
import { GatewayFolder, opened, plainNames } from '../gateway-folder.ts';
import { poweredRun } from '../powered-edges.ts';

const shipped = join(import.meta.dirname, '../../../../../systemd/images/systemd-boot-handler');
const VARIABLE = 'LoaderEntrySelected-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f';
const never = new AbortController().signal;

interface Entry {
  readonly file: string;
  /** The name without the counter. */
  readonly stem: string;
  readonly generation: number;
  readonly slot: SlotName;
  readonly left: number | undefined;
  readonly done: number;
}

/** The shipped handler on a partition in a directory, and a model of systemd-boot that reads and renames its entries. */
export class SystemdBootRig implements BootRig {
  readonly power = new Power();
  readonly attempts = 3;
  readonly folder: GatewayFolder;
  #bootloader: Bootloader | undefined;

  private constructor(folder: GatewayFolder) {
    this.folder = folder;
  }

  static async open(): Promise<SystemdBootRig> {
    const rig = new SystemdBootRig(await GatewayFolder.create());
    await rig.#prepare();
    await rig.#connect();
    for (const call of [
      ['set-primary', 'A'],
      ['set-state', 'A', 'good'],
    ])
      await tool([shipped, ...call], { env: rig.#places });
    await rig.boot();
    return rig;
  }

  /** Returns another gateway in the same state: a copy costs less than the calls that lead to it. */
  async copy(): Promise<SystemdBootRig> {
    const rig = new SystemdBootRig(await GatewayFolder.create());
    await cp(this.folder.path, rig.folder.path, { recursive: true });
    rig.folder.booted = this.folder.booted;
    await rig.#connect();
    return rig;
  }

  get bootloader(): Bootloader {
    return opened(this.#bootloader);
  }

  /** Environment of the handler, with its directories. */
  get #places() {
    const { path } = this.folder;
    return { ESP: join(path, 'esp'), DEVICES: path, EFIVARS: path };
  }

  get entries(): string {
    return this.folder.file('esp/loader/entries');
  }

  /** Calls the handler, with programs of this directory before the machine's own. Returns true if it succeeded. */
  async call(programs: string, ...args: readonly string[]): Promise<boolean> {
    const env = { ...this.#places, PATH: `${programs}:/usr/sbin:/usr/bin:/sbin:/bin` };
    const { exitCode } = await runProgram([shipped, ...args], { timeoutMs: 60_000, env }, never);
    return exitCode === 0;
  }

  async boot(): Promise<SlotName> {
    this.power.restore();
    const [entry] = (await this.#readEntries()).toSorted(inBootOrder);
    if (entry === undefined) throw new Error('no slot boots');
    const { file, stem, slot, left, done } = entry;
    const counted = left === undefined ? file : `${stem}+${Math.max(0, left - 1)}-${done + 1}.conf`;
    await rename(join(this.entries, file), join(this.entries, counted));
    const selected = Buffer.from(`${counted}\0`, 'utf16le');
    await writeFile(this.folder.file(VARIABLE), Buffer.concat([Buffer.alloc(4), selected]));
    this.folder.booted = slot;
    await writeFile(this.folder.file('cmdline'), 'console=ttyS0 quiet\n');
    return slot;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.folder[Symbol.asyncDispose]();
  }

  async #prepare(): Promise<void> {
    await mkdir(this.entries, { recursive: true });
    await mkdir(this.folder.file('kernel'));
    for (const part of ['vmlinuz', 'initrd.img']) await writeFile(this.folder.file(`kernel/${part}`), part);
    for (const slot of ['a', 'b']) {
      const image = this.folder.file(`kernel-${slot}`);
      await tool(['mkfs.ext4', '-q', '-d', this.folder.file('kernel'), image, '1M']);
    }
  }

  async #connect(): Promise<void> {
    const settings = { kind: 'custom', handler: shipped, names: plainNames } as const;
    this.#bootloader = await this.folder.bootloader(settings, { run: this.#run() });
  }

  #run(): RunProgram {
    const run = poweredRun(this.power, ([, call]) => call?.startsWith('set-') === true);
    return async (command, options, signal) => run(command, { ...options, env: this.#places }, signal);
  }

  async #readEntries(): Promise<readonly Entry[]> {
    const files = await readdir(this.entries);
    return files.filter((file) => file.endsWith('.conf')).map(readEntry);
  }
}

/**
 * Reads a file name as systemd-boot does. Source: Boot Loader Specification, "Boot counting": `+LEFT` or `+LEFT-DONE`
 * before the suffix.
 */
function readEntry(file: string): Entry {
  const match = /^(thing-(\d+)-([ab])-(?:trial|ok))(?:\+(\d+)(?:-(\d+))?)?\.conf$/.exec(file);
  if (match === null) throw new Error(`systemd-boot would list ${file}`);
  const [, stem = '', generation, letter, left, done = '0'] = match;
  return {
    file,
    stem,
    generation: Number(generation),
    slot: letter === 'a' ? 'A' : 'B',
    left: left === undefined ? undefined : Number(left),
    done: Number(done),
  };
}

/**
 * Orders entries as systemd-boot does: those without tries left last, then the newest version first. Source: systemd
 * 252, src/boot/efi/boot.c, `boot_entry_compare`; checked with the real program in QEMU by
 * `test/guarantees/systemd/systemd-boot.integration.test.ts`.
 */
function inBootOrder(one: Entry, other: Entry): number {
  const isUsedUp = ({ left }: Entry): number => Number(left === 0);
  return isUsedUp(one) - isUsedUp(other) || other.generation - one.generation;
}
