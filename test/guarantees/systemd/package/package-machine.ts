import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';

import { runProgram } from '../../../../src/system/processes/child-process.ts';
import { Console } from '../../../fakes/machine/booting/console.ts';
import { debianRootFileSystem } from '../../../fakes/machine/booting/debian.ts';
import type { Finished } from '../../../fakes/machine/booting/nspawn-gateway.ts';
import { OwnCgroup } from '../../../fakes/machine/booting/own-cgroup.ts';
import { tool } from '../../../fakes/machine/tool.ts';

const never = new AbortController().signal;

/** Environment of root's commands. */
export const rootEnvironment = [
  'PATH=/usr/sbin:/usr/bin:/sbin:/bin',
  'LANG=C.UTF-8',
  'DEBIAN_FRONTEND=noninteractive',
] as const;

/** A machine with Debian on one writable disk that has booted, where packages are installed by dpkg; ends when it is disposed. */
export interface DebianMachine extends AsyncDisposable {
  readonly console: Pick<Console, 'until'>;
  /** A command of root, at its end. */
  readonly exec: (...command: readonly string[]) => Promise<Finished>;
  /** Returns the output of a command that must succeed. */
  readonly tell: (...command: readonly string[]) => Promise<string>;
  /** Writes a file; makes it executable if it begins with `#!`. */
  readonly put: (path: string, text: string) => Promise<void>;
}

/** One that systemd-nspawn boots. */
export class PackageMachine implements DebianMachine {
  readonly console = new Console();
  readonly root: string;
  /** The machine's own directory, which is removed with it. */
  readonly #folder: string | undefined;
  readonly #cgroup = new OwnCgroup();
  /** Place there → place here. */
  readonly #binds: Readonly<Record<string, string>>;
  #isGone = false;
  #container: ChildProcess | undefined;
  #ended: Promise<unknown> = Promise.resolve();

  private constructor(root: string, binds: Readonly<Record<string, string>>, folder?: string) {
    this.root = root;
    this.#binds = binds;
    this.#folder = folder;
  }

  /** Boots. The machine has `packages` at /packages and `runtime` at /opt/runtime. */
  static async boot(packages: string, runtime?: string): Promise<PackageMachine> {
    const folder = await mkdtemp(join(tmpdir(), 'package-machine-'));
    const root = join(folder, 'root');
    await mkdir(root);
    await unpackDebian(root);
    return poweredOn(new PackageMachine(root, bindsOf(packages, runtime), folder));
  }

  /** Booted from what is mounted there, and stays. */
  static async bootOn(root: string, packages: string, runtime: string): Promise<PackageMachine> {
    return poweredOn(new PackageMachine(root, bindsOf(packages, runtime)));
  }

  async powerOn(): Promise<void> {
    const alone = ['--mount', '--pid', '--fork', '--kill-child', '--mount-proc'];
    const nspawn = ['systemd-nspawn', '--quiet', `--directory=${this.root}`, `--machine=packages-${randomUUID()}`];
    const how = ['--register=no', '--keep-unit', '--capability=all', '--resolv-conf=off', '--timezone=off'];
    const binds = Object.entries(this.#binds).map(([there, here]) => `--bind-ro=${here}:${there}`);
    const seen = ['--link-journal=no', '--console=read-only', ...binds, '--boot'];
    const systemd = ['systemd.journald.forward_to_console=1', 'systemd.show_status=no'];
    const shell = ['sh', '-c', `${this.#cgroup.enter} && exec "$@"`, 'sh'];
    const args = ['--pdeathsig', 'KILL', 'unshare', ...alone, '--', ...shell, ...nspawn, ...how, ...seen, ...systemd];
    const env = { ...process.env, SYSTEMD_NSPAWN_UNIFIED_HIERARCHY: '1', SYSTEMD_SECCOMP: '0' };
    const container = spawn('setpriv', args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
    this.#container = container;
    this.console.open();
    this.#ended = once(container, 'close').then(() => this.console.close('the machine ended'));
    for (const stream of [container.stdout, container.stderr])
      createInterface({ input: stream }).on('line', (line) => this.console.say(line));
    await this.console.until(/Startup finished/);
  }

  /** As by pulling the plug. */
  async powerOff(): Promise<void> {
    this.#container?.kill('SIGKILL');
    await this.#ended;
  }

  async exec(...command: readonly string[]): Promise<Finished> {
    const inside = ['nsenter', '--all', '--target', String(this.#leader), '--', ...command];
    return runProgram(['env', '-i', ...rootEnvironment, ...inside], { timeoutMs: 280_000 }, never);
  }

  async tell(...command: readonly string[]): Promise<string> {
    return said(command, await this.exec(...command));
  }

  async put(path: string, text: string): Promise<void> {
    await mkdir(dirname(join(this.root, path)), { recursive: true });
    await writeFile(join(this.root, path), text, { mode: text.startsWith('#!') ? 0o755 : 0o644 });
  }

  has(path: string): boolean {
    return existsSync(join(this.root, path));
  }

  /** Repeated calls have no further effect. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isGone) return;
    this.#isGone = true;
    await this.powerOff();
    await this.#cgroup[Symbol.asyncDispose]();
    if (this.#folder !== undefined) await rm(this.#folder, { recursive: true, force: true });
  }

  get #leader(): number {
    const leader = childOf(childOf(this.#container?.pid));
    if (leader === undefined) throw new Error('the machine does not run');
    return leader;
  }
}

/** Returns the output of a command that must have succeeded. */
export function said(command: readonly string[], { exitCode, stdout, stderr }: Finished): string {
  if (exitCode !== 0) throw new Error(`${command.join(' ')}: exit ${exitCode}: ${stdout}${stderr}`);
  return stdout.trim();
}

/** Unpacks Debian, as it starts in a container. */
export async function unpackDebian(root: string): Promise<void> {
  await tool(['tar', '-xf', await debianRootFileSystem(), '-C', root]);
  await writeFile(join(root, 'etc/machine-id'), '');
  await rm(join(root, 'etc/systemd/system/console-getty.service'), { force: true });
  await writeFile(join(root, 'etc/systemd/system/console-getty.service'), '');
}

function bindsOf(packages: string, runtime: string | undefined): Readonly<Record<string, string>> {
  return { '/packages': packages, ...(runtime !== undefined && { '/opt/runtime': runtime }) };
}

async function poweredOn(machine: PackageMachine): Promise<PackageMachine> {
  try {
    await machine.powerOn();
  } catch (error) {
    await machine[Symbol.asyncDispose]();
    throw error;
  }
  return machine;
}

function childOf(pid: number | undefined): number | undefined {
  const path = `/proc/${pid}/task/${pid}/children`;
  const [child = ''] = existsSync(path) ? readFileSync(path, 'utf8').split(' ') : [];
  return child === '' ? undefined : Number(child);
}
