import { mkdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';

import { buildDeb } from '../../../../systemd/make/deb.ts';
import type { Finished } from '../../../fakes/machine/booting/nspawn-gateway.ts';
import { tool } from '../../../fakes/machine/tool.ts';
import { bufferContent } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import type { StandIn } from '../../../fakes/service/stand-in.ts';
import { buildArtifact } from '../../../unit-and-integration/firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../../../unit-and-integration/firmware/artifact/keys.ts';
import { newDirectory } from '../installed-root.ts';
import { PackageMachine } from './package-machine.ts';
import type { DebianMachine } from './package-machine.ts';
import { smallTree } from './small-tree.ts';

/** Shell commands that change a package unpacked in $1, by variant. */
export const variants = {
  good: ':',
  /** Its agent never comes up. */
  broken: `printf '#!/bin/sh\\nexit 1\\n' >"$1/usr/lib/thing-agent/agent"`,
  /** dpkg cannot configure it. */
  refused: `printf '#!/bin/sh\\nexit 3\\n' >"$1/DEBIAN/postinst"`,
  stranger: `sed -i 's/^Package: .*/Package: stranger/' "$1/DEBIAN/control"`,
  /** Takes long enough to unpack that dpkg can be interrupted. */
  large: `head --bytes=48M /dev/zero >"$(echo "$1"/usr/lib/thing-agent/*/bin)/ballast"`,
  foreign: `sed -i 's/^Architecture: .*/Architecture: riscv64/' "$1/DEBIAN/control"`,
} as const;

/** Output of the agent for an update that was ordered without waiting. */
const ORDERED = '/run/ordered';
const REPORT_MS = 240_000;

/** Files that a machine boots with. */
export interface Lent {
  readonly service: StandIn;
  /** A folder here, which is /packages there. */
  readonly packages: string;
  /** A folder here, which is /opt/runtime there. */
  readonly runtime: string;
}

export interface RigMachines<Machine extends DebianMachine> {
  readonly boot: (lent: Lent) => Promise<Machine>;
  /** The table of the configuration with the service's address. Default: the service on this machine. */
  readonly serviceTable?: string;
  /** A package of the agent, which is version 1.0; if not given, that is what is built, as all other versions are. */
  readonly before?: string | undefined;
}

interface RigParts<Machine extends DebianMachine> extends Lent {
  readonly machine: Machine;
  /** The package that others are made of. */
  readonly newest: string;
  readonly serviceTable: string;
}

const containers: RigMachines<PackageMachine> = {
  boot: async ({ packages, runtime }) => PackageMachine.boot(packages, runtime),
};

/** A stand-in of the service and a Debian without slots, on which the agent was installed from its package; disposed as a whole. */
export class PackageRig<Machine extends DebianMachine = PackageMachine> implements AsyncDisposable {
  readonly service: StandIn;
  /** Goes with it; another one may take its place. */
  machine: Machine;
  readonly #packages: string;
  readonly #newest: string;
  readonly #serviceTable: string;
  readonly #opened: AsyncDisposableStack;
  readonly #keys = makeKeyPair('ecdsa-p256');
  #patienceSeconds = 30;

  private constructor(parts: RigParts<Machine>, opened: AsyncDisposableStack) {
    this.service = parts.service;
    this.machine = parts.machine;
    this.#packages = parts.packages;
    this.#newest = parts.newest;
    this.#serviceTable = parts.serviceTable;
    this.#opened = opened;
  }

  /** Boots in a container with packages that npm run deb made or makes now. */
  static async open(made?: string): Promise<PackageRig> {
    return PackageRig.openOn(containers, made);
  }

  static async openOn<Machine extends DebianMachine>(
    machines: RigMachines<Machine>,
    made?: string,
  ): Promise<PackageRig<Machine>> {
    await using opened = new AsyncDisposableStack();
    const directory = await newDirectory();
    opened.defer(async () => rm(directory, { recursive: true }));
    const packages = join(directory, 'packages');
    await mkdir(packages);
    const { tree, runtime } = await smallTree(directory);
    const newest = made ?? (await buildPackage(directory, tree));
    const { before } = machines;
    await tool([
      'cp',
      before === undefined ? newest : await versionBefore(before, directory, join(tree, 'bin/node')),
      join(packages, '1.0.deb'),
    ]);
    const service = opened.use(await startStandIn({ versions: [{ id: 'v0' }], currentVersionId: 'v0' }));
    service.world.targetVersionId = undefined;
    const lent = { service, packages, runtime };
    const machine = await machines.boot(lent);
    const all = opened.move();
    const serviceTable = machines.serviceTable ?? `{ url = "${service.url}" }`;
    const rig = new PackageRig({ ...lent, machine, newest, serviceTable }, all);
    all.defer(async () => rig.machine[Symbol.asyncDispose]());
    return rig;
  }

  /** Installs with dpkg, as for a first installation. */
  async setUp(): Promise<void> {
    const { machine } = this;
    await machine.tell('dpkg', '--install', '/packages/1.0.deb');
    await machine.put('etc/thing-agent/config.toml', this.#config);
    await machine.put('etc/thing-agent/trust/release.pem', this.#keys.publicPem);
    await machine.put('usr/lib/app/healthy', '#!/bin/sh\n');
    await machine.tell('systemctl', 'enable', '--now', 'thing-agent');
    await machine.console.until(/agent started/);
    await machine.console.until(/Nothing to do: v0 is installed/);
  }

  /** Sets how long the package installer waits for an agent that never starts. */
  async patience(seconds: number): Promise<void> {
    this.#patienceSeconds = seconds;
    await this.machine.put('etc/thing-agent/config.toml', this.#config);
    await this.machine.tell('systemctl', 'reload', 'thing-agent');
  }

  get #config(): string {
    return configText(this.#serviceTable, this.#patienceSeconds);
  }

  /** A package of this version; its file. */
  async package(version: string, variant: keyof typeof variants): Promise<string> {
    const [file, work] = [join(this.#packages, `${version}.deb`), join(this.#packages, 'work')];
    await tool(['dpkg-deb', '--raw-extract', this.#newest, work]);
    const edit = `sed -i 's/^Version: .*/Version: ${version}/' "$1/DEBIAN/control"; echo "# ${version}" >>"$1/etc/thing-agent/config.example.toml"`;
    await tool(['sh', '-ec', `${edit}\n${variants[variant]}`, 'sh', work]);
    await tool(['dpkg-deb', '--root-owner-group', '-Znone', '--build', work, file]);
    await rm(work, { recursive: true });
    return file;
  }

  /** From now on the owner wants this version, a signed artifact with that package. */
  async offer(id: string, version: string, variant: keyof typeof variants = 'good'): Promise<void> {
    const file = await this.package(version, variant);
    const content = await readFile(file);
    const key = this.#keys.privateKey;
    const payload = { files: [{ name: 'agent.deb', content }], targets: { 'agent.deb': 'agent' } };
    const artifact = await buildArtifact({ name: id, devices: ['test-gateway'], compression: 'none', key, ...payload });
    this.service.world.addVersion({ id, firmware: bufferContent(artifact) });
    this.service.world.targetVersionId = id;
  }

  /** Orders an update and does not wait for its end. */
  async order(): Promise<void> {
    await this.machine.tell('sh', '-c', `agent --update-now >${ORDERED} 2>&1 &`);
  }

  /** Waits for the end as an operator does, across the replacement of the agent. */
  async waitFor(command: '--update-now' | 'rollback'): Promise<Finished> {
    return this.machine.exec('agent', command);
  }

  /** Resolves with the next reported result of the current attempt; if there is none, with the machine's log. */
  async nextReport(): Promise<unknown> {
    const { promise, resolve } = Promise.withResolvers<unknown>();
    const late = setTimeout(() => resolve(this.#silence()), REPORT_MS);
    try {
      return await Promise.race([this.#report(), promise]);
    } finally {
      clearTimeout(late);
    }
  }

  async #report(): Promise<unknown> {
    for (;;) {
      const { path, body } = await this.service.nextCall('setProperty');
      if (path.includes('update_outcome')) return JSON.parse(body);
    }
  }

  async #silence(): Promise<string> {
    const look = `cat ${ORDERED}; agent status; systemctl status --no-pager 'thing-*'; journalctl --no-pager --lines=150`;
    const { stdout, stderr } = await this.machine.exec('sh', '-c', look);
    return `no report within ${REPORT_MS} ms\n${stdout}${stderr}`;
  }

  async installed(): Promise<string> {
    return this.machine.tell('dpkg-query', '--show', '--showformat=${db:Status-Abbrev}${Version}', 'thing-agent');
  }

  /** The operator's changes to the package's own configuration. */
  async config(): Promise<{ readonly written: string; readonly found: string }> {
    const { stdout } = await this.machine.exec('cat', '/etc/thing-agent/config.toml');
    return { written: this.#config, found: stdout };
  }

  async health(script: string): Promise<void> {
    await this.machine.put('usr/lib/app/healthy', `#!/bin/sh\n${script}\n`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened[Symbol.asyncDispose]();
  }
}

async function buildPackage(directory: string, tree: string): Promise<string> {
  const out = join(directory, 'built');
  await mkdir(out);
  return buildDeb({ out, arch: process.arch, version: '1.0', tree, compression: '-Znone' });
}

/** A package that npm run deb has made at another time, with a number of its own, and a runtime that is elsewhere. */
async function versionBefore(deb: string, directory: string, node: string): Promise<string> {
  const [work, file] = [join(directory, 'before'), join(directory, 'before.deb')];
  await tool(['dpkg-deb', '--raw-extract', deb, work], { timeoutMs: 300_000 });
  const edit = String.raw`
    cd "$1"
    sed -i 's/^Version: .*/Version: 1.0/' DEBIAN/control
    node=$(echo usr/lib/thing-agent/*/bin/node)
    cp "$2" "$node"
    sed -i "s|^[0-9a-f]*  $node\$|$(md5sum "$node")|" DEBIAN/md5sums`;
  await tool(['sh', '-ec', edit, 'sh', work, node]);
  await tool(['dpkg-deb', '--root-owner-group', '-Znone', '--build', work, file]);
  return file;
}

function configText(service: string, patienceSeconds: number): string {
  return `
service = ${service}
device = { serial_number = "GW-1", factory_version = "v0", device_type = "test-gateway" }
update = { splay = "0s", schedule = "0 0 1 1 *", health = { deadline = "5s", commands = [["/usr/lib/app/healthy"]] } }
trust = { keys = ["/etc/thing-agent/trust/release.pem"] }
report = { outcome = "update_outcome" }
[targets.agent]
kind = "package"
package = "thing-agent"
grace_period = "${patienceSeconds}s"
`;
}
