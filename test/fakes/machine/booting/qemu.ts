import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import process from 'node:process';
import { createInterface } from 'node:readline';

export type Architecture = 'amd64' | 'arm64';

export interface QemuOptions {
  /** Architecture of the emulated machine. Default: amd64. */
  readonly architecture?: Architecture | undefined;
  /** The disk image. */
  readonly disk: string;
  /** File for every write and flush of the disk, in the format of dm-log-writes, or undefined. */
  readonly log?: string | undefined;
  /** On this machine: where the stand-in of the service listens. */
  readonly servicePort: number;
  readonly serialNumber: string;
  readonly onLine: (line: string) => void;
  /** UEFI instead of a BIOS. */
  readonly efi?: { readonly code: string; readonly variables: string } | undefined;
  /** A pty of this machine that is the second serial port of the emulated one, and the environment that gives it modem lines. */
  readonly serial?: { readonly port: string; readonly environment: Readonly<Record<string, string>> } | undefined;
  /** More of QEMU's options. */
  readonly more?: readonly string[];
}

/**
 * A machine by software emulation, from power on to its reset or power cut. The disk is an NVMe one because Debian's kernel has
 * its driver built in. A reset ends the program (`-no-reboot`): GRUB after a warm reset is many times slower than after a start.
 */
export function startQemu(options: QemuOptions): ChildProcess {
  const { program } = machines[options.architecture ?? 'amd64'];
  const child = spawn('setpriv', ['--pdeathsig', 'KILL', program, ...qemuArguments(options)], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...options.serial?.environment },
  });
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => options.onLine(plain(line)));
  }
  return child;
}

/** Without the escape sequences of BIOS and bootloader. */
function plain(line: string): string {
  // eslint-disable-next-line no-control-regex -- escape sequences begin with a control character
  return line.replaceAll(/\x1b(?:\[[0-9;?=]*[A-Za-z]|[c78=>])|\r/g, '');
}

/**
 * The oldest processor: what newer ones have for hashing and copying is emulated at half the speed. But it has random numbers,
 * which its kernel would have to collect.
 */
const machines = {
  amd64: { program: 'qemu-system-x86_64', machine: ['-cpu', 'qemu64,+rdrand', '-m', '384'] },
  arm64: {
    program: 'qemu-system-aarch64',
    machine: ['-M', 'virt', '-cpu', 'cortex-a72', '-m', '512', '-device', 'virtio-rng-pci'],
  },
} as const satisfies Readonly<Record<Architecture, unknown>>;

function qemuArguments({
  architecture = 'amd64',
  disk,
  log,
  servicePort,
  serialNumber,
  efi,
  serial,
  more = [],
}: QemuOptions): readonly string[] {
  const file = { driver: 'file', filename: disk, 'node-name': 'disk', cache: { direct: false, 'no-flush': true } };
  const node = (value: object): string[] => ['-blockdev', JSON.stringify(value)];
  const blocks = node(file);
  if (log !== undefined) {
    blocks.push(...node({ driver: 'file', filename: log, 'node-name': 'log', cache: { 'no-flush': true } }));
    blocks.push(
      ...node({ driver: 'blklogwrites', file: 'disk', log: 'log', 'log-sector-size': 512, 'node-name': 'logged' }),
    );
  }
  const forward = `guestfwd=tcp:10.0.2.100:80-cmd:socat - TCP:127.0.0.1:${servicePort}`;
  const anyMachine: readonly string[] = ['-accel', 'tcg,thread=single', '-smp', '1', '-no-reboot', '-nodefaults'];
  const console = ['-display', 'none', '-serial', 'stdio', '-monitor', 'none', '-rtc', 'base=utc'];
  const network = ['-netdev', `user,id=net,restrict=on,${forward}`, '-device', 'virtio-net-pci,netdev=net,romfile='];
  return anyMachine.concat(
    machines[architecture].machine,
    console,
    ['-smbios', `type=1,serial=${serialNumber}`],
    blocks,
    ['-device', `nvme,drive=${log === undefined ? 'disk' : 'logged'},serial=disk,bootindex=0`],
    network,
    serial === undefined
      ? []
      : ['-chardev', `serial,id=port,path=${serial.port}`, '-device', 'isa-serial,chardev=port'],
    efi === undefined ? [] : flash(efi),
    more,
  );
}

function flash({ code, variables }: { readonly code: string; readonly variables: string }): string[] {
  const drives = [`unit=0,readonly=on,file=${code}`, `unit=1,file=${variables}`];
  return drives.flatMap((drive) => ['-drive', `if=pflash,format=raw,${drive}`]);
}
