import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';

import { silentLog } from '../../../../src/system/log/log.ts';
import { runProgram } from '../../../../src/system/processes/child-process.ts';
import { FileJournal } from '../../../../src/update/journal/journal.ts';
import type { SlotName } from '../../../../src/update/ports.ts';
import { UbootRig } from '../../../unit-and-integration/slots/bootloaders/uboot-rig.ts';
import { LoopDevice } from '../../../unit-and-integration/slots/loop-device.ts';
import { tool } from '../tool.ts';
import type { Console } from './console.ts';
import { GatewayMachine } from './gateway-machine.ts';
import type { PowerCycle, RunningMachine } from './gateway-machine.ts';
import { OwnCgroup } from './own-cgroup.ts';

/** In the configuration of the images. */
export const slotDevices = { A: '/dev/slot-a', B: '/dev/slot-b' } as const;
/**
 * In the configuration of the images: the kernel is the host's, and so is its boot id for a service that gets a /proc of its
 * own (`ProtectProc=`).
 */
export const bootIdFile = '/boot/boot-id';
/** Locations of the boot environment's two copies in the images. */
export const fwEnvConfig = '/boot/environment 0x0000 0x2000\n/boot/environment 0x2000 0x2000\n';

export interface NspawnGatewayOptions {
  /** Initial content of slot A: an ext4 image (slot-images.ts). */
  readonly image: string;
  /** The version that the service knows it by. */
  readonly version: string;
  readonly slotBytes: number;
  /** Directories of the host that are seen in the container: place there → place here. */
  readonly binds?: Readonly<Record<string, string>>;
}

export interface Finished {
  readonly exitCode: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

/** Exit code of nspawn when the container asked for a reboot. */
const REBOOT = 133;
const never = new AbortController().signal;

/**
 * A gateway that really boots: two loop devices as slots, read-only root file systems with a systemd of their own in
 * systemd-nspawn, U-Boot's environment with its real tools, and the boot script of the integrator's page. A reboot, and a slot
 * that does not boot, lead back to the boot script. State and boot environment lie outside the slots.
 */
export class NspawnGateway implements AsyncDisposable {
  readonly state: string;
  /** Its power cycles. */
  readonly #machine = new GatewayMachine({ start: (cycle) => this.#start(cycle) });
  readonly #options: NspawnGatewayOptions;
  readonly #folder: string;
  readonly #opened: AsyncDisposableStack;
  readonly #boot: UbootRig;
  readonly #cgroup: OwnCgroup;
  readonly #devices: { readonly A: LoopDevice; readonly B: LoopDevice };
  #container: ChildProcess | undefined;

  private constructor(
    folder: string,
    options: NspawnGatewayOptions,
    parts: {
      readonly boot: UbootRig;
      readonly cgroup: OwnCgroup;
      readonly A: LoopDevice;
      readonly B: LoopDevice;
      readonly opened: AsyncDisposableStack;
    },
  ) {
    this.#folder = folder;
    this.#options = options;
    this.#opened = parts.opened;
    this.#boot = parts.boot;
    this.#cgroup = parts.cgroup;
    this.#devices = parts;
    this.state = join(folder, 'state');
  }

  /** Powered off. */
  static async create(options: NspawnGatewayOptions): Promise<NspawnGateway> {
    await using opened = new AsyncDisposableStack();
    const folder = await mkdtemp(join(tmpdir(), 'nspawn-gateway-'));
    opened.defer(async () => rm(folder, { recursive: true }));
    const boot = opened.use(await UbootRig.open(2));
    const cgroup = opened.use(new OwnCgroup());
    const A = opened.use(await LoopDevice.attach(options.slotBytes));
    const B = opened.use(await LoopDevice.attach(options.slotBytes));
    await tool(['dd', `if=${options.image}`, `of=${A.path}`, 'bs=4M', 'conv=sparse,fsync', 'status=none']);
    await chmod(boot.folder.path, 0o755); // as /boot is: health commands of other users look there
    await mkdir(join(folder, 'root'));
    await mkdir(join(folder, 'state'), { mode: 0o700 });
    await provision(join(folder, 'state'), options.version);
    return new NspawnGateway(folder, options, { boot, cgroup, A, B, opened: opened.move() });
  }

  /** Directory of the boot environment, outside the slots; /boot in the container. */
  get bootFolder(): string {
    return this.#boot.folder.path;
  }

  get console(): Console {
    return this.#machine.console;
  }

  /** Slots that the bootloader chose, in order. */
  get boots(): readonly SlotName[] {
    return this.#machine.boots;
  }

  get booted(): SlotName | undefined {
    return this.boots.at(-1);
  }

  powerOn(): void {
    this.#machine.powerOn();
  }

  /** As by pulling the plug. */
  async powerOff(): Promise<void> {
    await this.#machine.powerOff();
  }

  /** A command in the container that runs, at its end. */
  async exec(command: readonly string[], user = 'technician'): Promise<Finished> {
    const as = user === 'root' ? [] : ['runuser', '-u', user, '--'];
    const inside = ['nsenter', '--all', '--target', String(this.#leader), '--', ...as, ...command];
    const environment = ['PATH=/usr/sbin:/usr/bin', 'LANG=C.UTF-8', 'SYSTEMD_PAGER=cat'];
    return runProgram(['env', '-i', ...environment, ...inside], { timeoutMs: 60_000 }, never);
  }

  /** Returns the output of root's command, which must succeed. */
  async tell(...command: readonly string[]): Promise<string> {
    const { exitCode, stdout, stderr } = await this.exec(command, 'root');
    if (exitCode !== 0) throw new Error(`${command.join(' ')}: exit ${exitCode}: ${stderr}`);
    return stdout.trim();
  }

  /** Returns this machine's path for a path of the running container. */
  place(path: string): string {
    return `/proc/${this.#leader}/root${path}`;
  }

  /** A file in the container that is gone after a reboot, as of a drop-in below /run. */
  async write(path: string, text: string): Promise<void> {
    await this.tell('sh', '-c', 'mkdir -p "$(dirname "$1")" && printf %s "$2" >"$1"', 'sh', path, text);
  }

  /** Reads the update journal from the state directory. */
  async updateState(): Promise<FileJournal['state']> {
    return (await FileJournal.open(this.state, silentLog)).state;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.powerOff();
    await this.#opened[Symbol.asyncDispose]();
  }

  #start({ onLine }: PowerCycle): RunningMachine {
    const power = new AbortController();
    return {
      kill: () => power.abort(),
      ended: this.#boot.boot().then((slot) => this.#run(slot, onLine, power.signal)),
    };
  }

  /** True if it ended in a reset. */
  async #run(slot: SlotName, onLine: PowerCycle['onLine'], power: AbortSignal): Promise<boolean> {
    await writeFile(join(this.bootFolder, 'boot-id'), `${randomUUID()}\n`);
    onLine(`*** the bootloader chose slot ${slot}`);
    const code = await this.#runContainer(slot, onLine, power);
    onLine(`*** the container ended with ${code}`);
    if (code !== 0 && code !== REBOOT) onLine('*** reset by the hardware');
    return code !== 0;
  }

  async #runContainer(slot: SlotName, onLine: PowerCycle['onLine'], power: AbortSignal): Promise<number | null> {
    const root = join(this.#folder, 'root');
    // In a process namespace of its own, so that nothing survives this process, however that ends; the root file system
    // is mounted there only.
    const alone = ['--mount', '--pid', '--fork', '--kill-child', '--mount-proc'];
    const script = `${this.#cgroup.enter} && mount -o ro "$1" "$2" && shift 2 && exec systemd-nspawn "$@"`;
    const args = ['--pdeathsig', 'KILL', 'unshare', ...alone, '--', 'sh', '-c', script, 'sh'];
    args.push(this.#devices[slot].path, root, ...this.#nspawnArguments(root));
    // Without these two nspawn does not let systemd enforce rules on devices.
    const env = { ...process.env, SYSTEMD_NSPAWN_UNIFIED_HIERARCHY: '1', SYSTEMD_SECCOMP: '0' };
    const child = spawn('setpriv', args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
    this.#container = child;
    for (const stream of [child.stdout, child.stderr]) createInterface({ input: stream }).on('line', onLine);
    const kill = (): void => void child.kill('SIGKILL');
    power.addEventListener('abort', kill);
    if (power.aborted) kill();
    const [code] = (await once(child, 'close')) as [number | null];
    return code;
  }

  #nspawnArguments(root: string): readonly string[] {
    const binds = {
      [slotDevices.A]: this.#devices.A.path,
      [slotDevices.B]: this.#devices.B.path,
      '/boot': this.bootFolder,
      '/var/lib/thing-agent': this.state,
      ...this.#options.binds,
    };
    return [
      '--quiet',
      `--directory=${root}`,
      '--volatile=state',
      `--machine=gateway-${randomUUID()}`,
      '--register=no',
      '--keep-unit',
      '--capability=all',
      '--resolv-conf=off',
      '--timezone=off',
      '--link-journal=no',
      '--console=read-only',
      ...Object.entries(binds).map(([there, here]) => `--bind=${here}:${there}`),
      '--boot',
      'systemd.journald.forward_to_console=1',
      'systemd.show_status=no',
    ];
  }

  /** The container's first process, as the host sees it: a child of nspawn's, which is a child of unshare's. */
  get #leader(): number {
    const nspawn = childOf(this.#container?.pid);
    const leader = childOf(nspawn);
    if (leader === undefined) throw new Error('no container runs');
    return leader;
  }
}

function childOf(pid: number | undefined): number | undefined {
  const path = `/proc/${pid}/task/${pid}/children`;
  const [child = ''] = existsSync(path) ? readFileSync(path, 'utf8').split(' ') : [];
  return child === '' ? undefined : Number(child);
}

/** Provisions a gateway as the factory does: the journal names the version in slot A. */
async function provision(state: string, version: string): Promise<void> {
  const journal = await FileJournal.open(state, silentLog);
  const installed = { digest: 'factory', provides: {}, payloads: [], version: { id: version, name: version }, at: '' };
  await journal.append({ type: 'factory-version', installed: { ...installed, slot: 'A' } });
}
