import { mkdir, readFile, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import process from 'node:process';
import { isDeepStrictEqual } from 'node:util';

import { buildTree } from '../../../../systemd/make/build.ts';
import { buildDeb } from '../../../../systemd/make/deb.ts';
import { tool } from '../../../fakes/machine/tool.ts';
import type { FaultRule } from '../../../fakes/service/faults.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import type { StandIn } from '../../../fakes/service/stand-in.ts';
import { isFull } from '../../../full.ts';
import { newDirectory } from '../installed-root.ts';
import { PackageMachine } from './package-machine.ts';
import { smallTree } from './small-tree.ts';
import { SteppedDpkg } from './steps/stepped-dpkg.ts';

const project = resolve(import.meta.dirname, '../../../..');
/** Below /boot, where the unit may write. */
const place = '/boot/gateway';

/** So that they wait in the spool. */
export const noDatapoints: FaultRule = {
  operation: 'postDatapoints',
  times: 'always',
  fault: { kind: 'status', status: 503 },
};

/** Two versions of the package, in full with its own runtime, and a booted Debian to install them on. */
export class LifeRig implements AsyncDisposable {
  static readonly older = '0.1.0';
  static readonly newer = '0.1.1';
  readonly service: StandIn;
  readonly machine: PackageMachine;
  readonly dpkg: SteppedDpkg;
  readonly #opened: AsyncDisposableStack;

  private constructor(parts: Pick<LifeRig, 'service' | 'machine' | 'dpkg'>, opened: AsyncDisposableStack) {
    this.service = parts.service;
    this.machine = parts.machine;
    this.dpkg = parts.dpkg;
    this.#opened = opened;
  }

  static async open(): Promise<LifeRig> {
    await using opened = new AsyncDisposableStack();
    const directory = await newDirectory();
    opened.defer(async () => rm(directory, { recursive: true }));
    const out = join(directory, 'packages');
    const runtime = await buildPackages(directory, out);
    const service = opened.use(await startStandIn({ versions: [{ id: 'v0' }], currentVersionId: 'v0' }));
    service.world.targetVersionId = undefined;
    const machine = opened.use(await PackageMachine.boot(out, runtime));
    const dpkg = await SteppedDpkg.on(machine);
    await machine.put(`${place}/handler`, await readFile(join(project, 'test/fakes/machine/boot-handler'), 'utf8'));
    await machine.tell('truncate', '-s', '4M', `${place}/slot-a`, `${place}/slot-b`);
    await machine.tell(`${place}/handler`, 'boot');
    return new LifeRig({ service, machine, dpkg }, opened.move());
  }

  config(): string {
    return `
service = { url = "${this.service.url}" }
device = { serial_number = "GW-1", device_type = "test-gateway", factory_version = "v0" }
update = { splay = "0s", schedule = "0 0 1 1 *", health = { deadline = "30s" } }
trust = { keys = ["/etc/thing-agent/trust/release.pem"], allow_unsigned = true }
system = { reboot_command = ["true"], boot_id_file = "${place}/boot-id" }
[targets.gateway]
kind = "slots"
slots = { A = "${place}/slot-a", B = "${place}/slot-b" }
bootloader = { kind = "custom", handler = "${place}/handler" }
`;
  }

  async install(version: string, ...options: readonly string[]) {
    return this.machine.exec(...options, 'dpkg', '--install', debOf(version));
  }

  async installWell(version: string): Promise<void> {
    await this.machine.tell('dpkg', '--install', debOf(version));
  }

  async installed(): Promise<string> {
    return this.machine.tell('dpkg-query', '--show', '--showformat=${db:Status-Status} ${Version}', 'thing-agent');
  }

  /** Waits until systemd is idle, so that a start in progress is never killed. */
  async isActive(): Promise<string> {
    const settled =
      'while [ "$(systemctl show --value --property=Job thing-agent.service)" != "" ]; do sleep 0.2; done';
    const { stdout } = await this.machine.exec('sh', '-c', `${settled}; systemctl is-active thing-agent.service`);
    return stdout.trim();
  }

  /** The version that is not installed. */
  async other(): Promise<string> {
    return (await this.installed()).endsWith(LifeRig.older) ? LifeRig.newer : LifeRig.older;
  }

  async mainPid(unit: string): Promise<string> {
    return this.machine.tell('systemctl', 'show', '--value', '--property=MainPID', unit);
  }

  /** The program that the unit's process was started as; in full, that it is. */
  async programOf(unit: string): Promise<string> {
    const process = `/proc/${await this.mainPid(unit)}`;
    if (isFull) return this.machine.tell('readlink', `${process}/exe`);
    return (await this.machine.tell('cat', `${process}/cmdline`)).split('\0')[0] ?? '';
  }

  /** Returns the files that only a purge may remove. */
  async memory(): Promise<object> {
    const { machine } = this;
    const identity = await readFile(join(machine.root, 'var/lib/thing-agent/identity.json'), 'utf8');
    const said = JSON.parse(await machine.tell('agent', 'queue', 'status', '--json')) as {
      readonly spool: { readonly pointsOnDisk: number };
    };
    return { identity, phase: (await this.status()).phase, hasSpool: said.spool.pointsOnDisk > 0 };
  }

  async status(): Promise<{ readonly phase: string }> {
    return JSON.parse(await this.machine.tell('agent', 'status', '--json')) as { readonly phase: string };
  }

  /**
   * Kills dpkg before each of these steps of a replacement. Resolves with the deviations of the agent in the meantime
   * and of the repair by dpkg.
   */
  async killAtEach(chosen: readonly (string | number)[], agent: () => Promise<string>): Promise<readonly object[]> {
    const before = await this.memory();
    const broken: object[] = [];
    for (const at of chosen) {
      const version = await this.other();
      const killedBefore = await this.dpkg.kill(at, '--install', debOf(version));
      const wanted = { agent: 'active', asked: '', installed: `installed ${version}`, after: 'active' };
      const found = { agent: await agent(), asked: await this.#ask(), ...(await this.#mend(version)) };
      if (!isDeepStrictEqual(found, wanted)) broken.push({ killedBefore, version, found });
    }
    const after = await this.memory();
    if (!isDeepStrictEqual(after, before)) broken.push({ before, after });
    return broken;
  }

  /** Calls an agent whose files may be gone. Resolves with its error output, or an empty string. */
  async #ask(): Promise<string> {
    const { exitCode, stdout, stderr } = await this.machine.exec('agent', '--update-now');
    return exitCode === 0 ? '' : `${stdout}${stderr}`;
  }

  /** Repairs as dpkg advises: a package that was killed before it was unpacked must be installed again. */
  async #mend(version: string) {
    const { exitCode, stderr } = await this.machine.exec('dpkg', '--configure', '-a');
    if (exitCode !== 0 && !stderr.includes('reinstall it before attempting configuration')) throw new Error(stderr);
    if ((await this.installed()) !== `installed ${version}`) await this.installWell(version);
    return { installed: await this.installed(), after: await this.isActive() };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened[Symbol.asyncDispose]();
  }
}

export function debOf(version: string): string {
  return `/packages/thing-agent_${version}_${process.arch === 'x64' ? 'amd64' : process.arch}.deb`;
}

/** In full with its own runtime. Resolves with the folder of that which they start otherwise. */
async function buildPackages(directory: string, out: string): Promise<string | undefined> {
  const { tree, runtime } = isFull ? await wholeTree(directory) : await smallTree(directory);
  await mkdir(out);
  const packing = { out, arch: process.arch, tree, compression: '-Znone' };
  const older = await buildDeb({ ...packing, version: LifeRig.older });
  if (isFull) await buildDeb({ ...packing, version: LifeRig.newer });
  else await newerOf(older, join(directory, 'work'));
  return runtime;
}

async function wholeTree(directory: string): Promise<{ readonly tree: string; readonly runtime: undefined }> {
  const tree = join(directory, 'tree');
  await buildTree({ out: tree, main: join(project, 'src/main.ts'), arch: process.arch, strip: true });
  return { tree, runtime: undefined };
}

/** The same content under the other version, in the folder that is named after it. */
async function newerOf(deb: string, work: string): Promise<void> {
  const { older, newer } = LifeRig;
  const edit = `
    dpkg-deb --raw-extract "$1" "$2" && cd "$2"
    sed -i 's/^Version: .*/Version: ${newer}/' DEBIAN/control
    sed -i 's#/${older}-#/${newer}-#' usr/lib/thing-agent/agent DEBIAN/md5sums
    for folder in usr/lib/thing-agent/${older}-*; do mv "$folder" "usr/lib/thing-agent/${newer}-\${folder##*-}"; done
    dpkg-deb --root-owner-group -Znone --build . "$3"`;
  await tool(['sh', '-ec', edit, 'sh', deb, work, deb.replace(older, newer)]);
}
