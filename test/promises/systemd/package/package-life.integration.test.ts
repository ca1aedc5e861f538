import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { agentVersion } from '../../../../src/version.ts';
import { buildTree } from '../../../../systemd/build.ts';
import { buildDeb } from '../../../../systemd/deb.ts';
import { makeKeyPair } from '../../../rooms/firmware/artifact/keys.ts';
import type { FaultRule } from '../../../stand-ins/service/faults.ts';
import { randomContent } from '../../../stand-ins/service/firmware-content.ts';
import { startStandIn } from '../../../stand-ins/service/stand-in.ts';
import type { StandIn } from '../../../stand-ins/service/stand-in.ts';
import { newDirectory } from '../installed-root.ts';
import { PackageMachine } from './package-machine.ts';

/** Two versions of the package, on a booted Debian; each test goes on where the one before has ended. */

const project = resolve(import.meta.dirname, '../../../..');
const older = '0.1.0';
const newer = '0.1.1';
/** Below /boot, where the unit may write. */
const place = '/boot/gateway';

/** That of a question about packages, and the helper. */
const sockets = ['thing-agent-package.socket', 'thing-helper.socket', 'thing-helper.service'];

/** So that they wait in the spool. */
const noDatapoints: FaultRule = {
  operation: 'postDatapoints',
  times: 'always',
  fault: { kind: 'status', status: 503 },
};

let stack: AsyncDisposableStack;
let service: StandIn;
let machine: PackageMachine;

beforeAll(async () => {
  stack = new AsyncDisposableStack();
  const directory = await newDirectory();
  stack.defer(async () => rm(directory, { recursive: true }));
  const [tree, out] = [join(directory, 'tree'), join(directory, 'packages')];
  await buildTree({ out: tree, main: join(project, 'src/main.ts'), arch: process.arch, strip: true });
  await mkdir(out);
  for (const version of [older, newer])
    await buildDeb({ out, arch: process.arch, version, tree, compression: '-Znone' });
  service = stack.use(await startStandIn({ versions: [{ id: 'v0' }], currentVersionId: 'v0' }));
  service.world.targetVersionId = undefined;
  machine = stack.use(await PackageMachine.boot(out));
  await machine.put(`${place}/handler`, await readFile(join(project, 'test/stand-ins/machine/boot-handler'), 'utf8'));
  await machine.tell('truncate', '-s', '4M', `${place}/slot-a`, `${place}/slot-b`);
  await machine.tell(`${place}/handler`, 'boot');
}, 600_000);
afterAll(async () => {
  await stack.disposeAsync();
});

function config(): string {
  return `
service = { url = "${service.url}" }
device = { serial_number = "GW-1", device_type = "test-gateway" }
update = { splay = "0s", schedule = "0 0 1 1 *", health = { deadline = "30s" } }
trust = { keys = ["/etc/thing-agent/trust/release.pem"], allow_unsigned = true }
system = { reboot_command = ["true"], boot_id_file = "${place}/boot-id" }
[targets.gateway]
kind = "slots"
slots = { A = "${place}/slot-a", B = "${place}/slot-b" }
bootloader = { kind = "custom", handler = "${place}/handler" }
`;
}

async function install(version: string, ...options: readonly string[]) {
  return machine.exec(...options, 'dpkg', '--force-confold', '--install', debOf(version));
}

function debOf(version: string): string {
  return `/packages/thing-agent_${version}_${process.arch === 'x64' ? 'amd64' : process.arch}.deb`;
}

async function installWell(version: string): Promise<void> {
  const { exitCode, stdout, stderr } = await install(version);
  expect(exitCode, `${stdout}${stderr}`).toBe(0);
}

async function installed(): Promise<string> {
  return machine.tell('dpkg-query', '--show', '--showformat=${db:Status-Status} ${Version}', 'thing-agent');
}

async function isActive(): Promise<string> {
  return (await machine.exec('systemctl', 'is-active', 'thing-agent.service')).stdout.trim();
}

/** What must outlast everything but a purge. */
async function memory(): Promise<object> {
  const identity = await readFile(join(machine.root, 'var/lib/thing-agent/identity.json'), 'utf8');
  const said = JSON.parse(await machine.tell('agent', 'spool', 'status', '--json')) as {
    readonly spool: { readonly pointsOnDisk: number };
  };
  return { identity, phase: (await status()).phase, hasSpool: said.spool.pointsOnDisk > 0 };
}

async function status(): Promise<{ readonly phase: string }> {
  return JSON.parse(await machine.tell('agent', 'status', '--json')) as { readonly phase: string };
}

/** dpkg and its scripts are killed as it says its line of this number, and so many milliseconds later. */
async function installKilled(version: string, atLine: number, laterMs: number): Promise<void> {
  const kill = `
    setsid sh -c 'echo $$ >/run/dpkg.pid; exec dpkg --status-fd 1 --force-confold --install "$1"' sh "$1" 2>&1 |
    while read -r line; do
      count=$((count + 1))
      if [ "$count" = "$2" ]; then sleep "$3"; kill -KILL -- "-$(cat /run/dpkg.pid)"; fi
    done`;
  await machine.tell('sh', '-c', kill, 'sh', debOf(version), String(atLine), String(laterMs / 1000));
}

describe('the package', () => {
  test('is installed, and starts nothing before a person has set it up', async () => {
    await installWell(older);
    expect(await installed()).toBe(`installed ${older}`);
    expect(await isActive()).toBe('inactive');
    expect(await machine.tell('agent', '--version')).toBe(`agent ${agentVersion}`);
    expect(await machine.tell('getent', 'group', 'thing-agent', 'thing-operators')).toMatch(
      /^thing-agent[^]*thing-operators/,
    );
  });

  test('starts when it is enabled, and needs nothing but its configuration', async () => {
    await machine.put('etc/thing-agent/config.toml', config());
    await machine.put('etc/thing-agent/trust/release.pem', makeKeyPair('ecdsa-p256').publicPem);
    await machine.tell('systemctl', 'enable', '--now', 'thing-agent', 'thing-agent-trial.timer');
    await machine.console.until(/the agent is up/);
    await machine.console.until(/activated serialNumber=GW-1/);
    expect(await isActive()).toBe('active');
    expect(await machine.tell('systemctl', 'is-active', 'thing-agent-trial.timer')).toBe('active');
    service.fail(noDatapoints);
    await machine.tell('agent', 'datapoint', 'send', 'level', '3');
    expect(await memory()).toMatchObject({ hasSpool: true });
  });

  test.each([newer, older])(
    'is exchanged for version %s, which takes over the service and all that it keeps',
    async (version) => {
      const before = await memory();
      await installWell(version);
      await machine.console.until(/the agent is up/);
      expect(await isActive()).toBe('active');
      expect(await memory()).toEqual(before);
      expect(service.world.things).toMatchObject([{ activations: 1 }]);
      const trees = await machine.tell(
        'find',
        '/usr/lib/thing-agent',
        '-mindepth',
        '1',
        '-maxdepth',
        '1',
        '-type',
        'd',
      );
      expect(trees).toMatch(new RegExp(`^/usr/lib/thing-agent/${version}-[0-9a-f]+$`));
    },
  );

  test('waits for an update that is being staged, and refuses where that takes too long', async () => {
    service.fail({ operation: 'firmware', times: 'always', fault: { kind: 'silence', afterBytes: 500_000 } });
    service.world.addVersion({ id: 'v1', firmware: randomContent(2_000_000) });
    service.world.targetVersionId = 'v1';
    const called = service.nextCall('firmware');
    const update = machine.exec('agent', '--update-now');
    await called;
    await machine.tell('sh', '-c', 'until agent status --json | grep -q staging; do :; done');
    expect(await install(newer, 'env', 'THING_AGENT_PATIENCE=1')).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('an update is under way') as string,
    });
    expect(await installed()).toBe(`installed ${older}`);
    const waited = install(newer, 'systemd-cat');
    await machine.console.until(/waiting for the update that is under way/);
    expect(await status()).toMatchObject({ activity: { operation: 'update' } });
    await machine.tell('agent', 'cancel');
    expect(await update).toMatchObject({ exitCode: 75 });
    expect(await waited).toMatchObject({ exitCode: 0 });
    expect(await installed()).toBe(`installed ${newer}`);
    await machine.console.until(/the agent is up/);
    service.world.targetVersionId = undefined;
    service.clearFaults();
    service.fail(noDatapoints);
  });

  test('is killed with its scripts at any moment, goes on where it was, and the agent works meanwhile', async () => {
    const before = await memory();
    const moments = [
      [2, 0],
      [3, 300],
      [4, 1000],
      [5, 100],
      [7, 0],
    ] as const;
    for (const [index, [atLine, laterMs]] of moments.entries()) {
      const version = index % 2 === 0 ? older : newer;
      const when = `line ${atLine}, ${laterMs} ms later`;
      await installKilled(version, atLine, laterMs);
      expect.soft(await machine.tell('agent', '--version'), when).toBe(`agent ${agentVersion}`);
      expect.soft(await isActive(), when).toBe('active');
      expect.soft(await machine.exec('dpkg', '--configure', '-a'), when).toMatchObject({ exitCode: 0 });
      if ((await installed()) !== `installed ${version}`) await installWell(version);
      expect.soft(await installed(), when).toBe(`installed ${version}`);
      expect.soft(await isActive(), when).toBe('active');
    }
    expect(await memory()).toEqual(before);
  }, 600_000);

  test('of two processes is exchanged with both, and neither goes on with the version before', async () => {
    const dropIns = '/etc/systemd/system/thing-agent.service.d';
    await machine.tell('mkdir', '-p', dropIns);
    await machine.tell('ln', '-s', '/usr/lib/thing-agent/two-processes.conf', `${dropIns}/10-two-processes.conf`);
    const helper = 'system = { helper = "/run/thing-helper/helper.sock",';
    await machine.put('etc/thing-agent/config.toml', config().replace('system = {', helper));
    await machine.tell('systemctl', 'daemon-reload');
    await machine.tell('systemctl', 'restart', 'thing-agent');
    await machine.console.until(/the helper is up/);
    const before = await memory();
    await installWell(newer);
    await machine.console.until(/the agent is up/);
    expect(await memory()).toEqual(before);
    for (const unit of ['thing-agent.service', 'thing-helper.service']) {
      const pid = await machine.tell('systemctl', 'show', '--value', '--property=MainPID', unit);
      expect(await machine.tell('readlink', `/proc/${pid}/exe`)).toMatch(
        new RegExp(`^/usr/lib/thing-agent/${newer}-[0-9a-f]+/bin/node$`),
      );
      expect(await machine.tell('systemctl', 'show', '--value', '--property=Result', unit)).toBe('success');
    }
    expect((await machine.exec('agent', 'check')).stdout).not.toMatch(/FAIL/);
  });

  test('keeps identity, journal and spool when it is removed, and has them again when it is back', async () => {
    const before = await memory();
    await machine.tell('dpkg', '--remove', 'thing-agent');
    expect(await isActive()).toBe('inactive');
    expect((await machine.exec('systemctl', 'is-active', ...sockets)).stdout).toBe('inactive\n'.repeat(sockets.length));
    expect(
      ['usr/lib/thing-agent', 'usr/bin/agent', 'var/cache/thing-agent'].filter((path) => machine.has(path)),
    ).toEqual([]);
    await installWell(newer);
    await machine.console.until(/the agent is up/);
    expect(await memory()).toEqual(before);
    expect(await machine.tell('systemctl', 'is-active', 'thing-agent-trial.timer')).toBe('active');
  });

  test('leaves nothing when it is purged but groups and the keys of a person, and begins anew', async () => {
    await machine.tell('dpkg', '--purge', 'thing-agent');
    const left = [
      'var/lib/thing-agent',
      'etc/thing-agent/config.toml',
      'usr/lib/thing-agent',
      'etc/systemd/system/multi-user.target.wants/thing-agent.service',
    ];
    expect(left.filter((path) => machine.has(path))).toEqual([]);
    expect(machine.has('etc/thing-agent/trust/release.pem')).toBe(true);
    expect(await machine.tell('getent', 'group', 'thing-agent')).toMatch(/^thing-agent/);
    expect(await readdir(join(machine.root, 'etc/systemd/system'))).not.toContain('emergency.target.wants');
    await installWell(older);
    expect(await isActive()).toBe('inactive');
    expect(await readFile(join(machine.root, 'etc/thing-agent/config.toml'), 'utf8')).toContain('things.example.com');
  });
});
