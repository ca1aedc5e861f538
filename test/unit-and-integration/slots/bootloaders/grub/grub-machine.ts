import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { run } from '../../loop-device.ts';
import { bootloaderBlock } from '../bootloader-pages.ts';

const MiB = 1024 * 1024;
const SECTOR_BYTES = 512;
const DEADLINE_MS = 60_000;
/** Partitions of the disk: first and last sector. */
const partitions = { boot: [2048, 18_431], A: [18_432, 26_623], B: [26_624, 34_815] } as const;
const modules =
  'part_gpt ext2 fat normal linux loadenv test echo boot reboot serial terminal sleep biosdisk datehook regexp';
const told = 'echo "chose=$SLOT told=$TOLD counted=$COUNTED"';

export interface GrubDisk {
  /** The environment blocks by their names. Absent if the file is missing. */
  readonly environment?: readonly string[] | 'spoilt' | undefined;
  readonly copy?: readonly string[] | 'spoilt' | undefined;
  /** Slots that hold something that GRUB may try to load. */
  readonly there: readonly ('A' | 'B')[];
}

export interface GrubStart {
  readonly readOnly?: boolean;
  /** Minute of the machine's clock. */
  readonly minute?: number;
  /** Its time follows the work that it does, 128 ns for an instruction: the seconds that GRUB sleeps are short. */
  readonly timeByWork?: boolean;
}

/**
 * The real GRUB in an emulated PC, with the page's configuration, and no kernel that could start: each boot ends in a
 * reset, or waits for input. A machine that stops at the menu is killed.
 */
export class GrubMachine implements AsyncDisposable {
  readonly #folder: string;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  static async open(disk: GrubDisk): Promise<GrubMachine> {
    const machine = new GrubMachine(await mkdtemp(join(tmpdir(), 'grub-machine-')));
    await machine.#makeGrub();
    await machine.#makeDisk(disk);
    return machine;
  }

  /** Returns GRUB's choice, and whether it left the menu automatically. */
  async start({ readOnly = false, minute = 0, timeByWork = false }: GrubStart = {}): Promise<{
    readonly said: string;
    readonly reset: boolean;
  }> {
    const disk = `file=${this.#file('disk')},format=raw,if=virtio,readonly=${readOnly ? 'on' : 'off'}`;
    const clock = `base=2026-01-01T10:${String(minute).padStart(2, '0')}:00`;
    const machine = ['-m', '64', '-display', 'none', '-net', 'none', '-no-reboot', '-rtc', clock];
    if (timeByWork) machine.push('-icount', 'shift=7,sleep=off');
    const devices = ['-serial', 'stdio', '-monitor', 'none', '-drive', disk, '-kernel', this.#file('grub')];
    const child = spawn('qemu-system-x86_64', [...machine, ...devices], {
      stdio: ['ignore', 'pipe', 'inherit'],
      timeout: DEADLINE_MS,
      killSignal: 'SIGKILL',
    });
    let text = '';
    child.stdout.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
      // GRUB would wait for input for ever.
      if (text.includes('Press any key')) child.kill('SIGKILL');
    });
    const [code] = (await once(child, 'close')) as [number | null];
    return { said: /chose=.* counted=\d/.exec(text)?.[0] ?? text, reset: code === 0 };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#folder, { recursive: true });
  }

  #file(name: string): string {
    return join(this.#folder, name);
  }

  /** GRUB in a form that the emulator starts without a boot sector. */
  async #makeGrub(): Promise<void> {
    const core = this.#file('core');
    await run('grub-mkimage', '-O', 'i386-pc', '-p', '(hd0,gpt1)/grub', '-o', core, ...modules.split(' '));
    await run('sh', '-c', 'cat /usr/lib/grub/i386-pc/lnxboot.img "$1" >"$2"', 'sh', core, this.#file('grub'));
  }

  async #makeDisk({ environment, copy, there }: GrubDisk): Promise<void> {
    await mkdir(this.#file('boot/grub'), { recursive: true });
    const console = 'serial --unit=0\nterminal_output serial\n';
    await writeFile(
      this.#file('boot/grub/grub.cfg'),
      `${console}${bootloaderBlock('sh grub')}${told}\n${bootloaderBlock('sh grub menu')}`,
    );
    await makeEnvironment(this.#file('boot/grub/grubenv'), environment);
    await makeEnvironment(this.#file('boot/grub/grubenv.copy'), copy);
    for (const slot of ['A', 'B'] as const) {
      await mkdir(this.#file(slot));
      if (there.includes(slot)) await writeFile(this.#file(`${slot}/vmlinuz`), 'no kernel\n');
    }
    await run('truncate', '-s', String(20 * MiB), this.#file('disk'));
    const table = Object.entries(partitions).flatMap(([, [first, last]], index) => [
      '-n',
      `${index + 1}:${first}:${last}`,
    ]);
    await run('sgdisk', '--clear', ...table, this.#file('disk'));
    for (const [name, [first, last]] of Object.entries(partitions)) {
      const part = this.#file(`${name}.ext4`);
      await run('truncate', '-s', String((last - first + 1) * SECTOR_BYTES), part);
      await run('mkfs.ext4', '-q', '-d', this.#file(name), part);
      await run(
        'dd',
        `if=${part}`,
        `of=${this.#file('disk')}`,
        `bs=${MiB}`,
        `seek=${(first * SECTOR_BYTES) / MiB}`,
        'conv=notrunc',
      );
    }
  }
}

async function makeEnvironment(file: string, variables: GrubDisk['environment']): Promise<void> {
  if (variables === undefined) return;
  if (variables === 'spoilt') return writeFile(file, 'x'.repeat(1024));
  await run('grub-editenv', file, 'create');
  if (variables.length > 0) await run('grub-editenv', file, 'set', ...variables);
}
