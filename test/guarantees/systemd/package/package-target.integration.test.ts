import { afterAll, beforeAll, expect, test } from 'vitest';

import { testInFull } from '../../../full-run.ts';
import { howMuch } from '../../../full.ts';
import { PackageRig } from './package-rig.ts';

/**
 * The agent installs its own package on a booted Debian without slots. Each test continues from the state that the
 * previous one left.
 */

let rig: PackageRig;
/** A configuration file of the package that an operator has changed. */
const EXAMPLE = 'etc/thing-agent/config.example.toml';
const OURS = '# of a person\n';

beforeAll(async () => {
  rig = await PackageRig.open();
  await rig.setUp();
  await rig.machine.put(EXAMPLE, OURS);
}, 600_000);
afterAll(async () => {
  await rig?.[Symbol.asyncDispose]();
});

/** Expects one complete version, a running agent, and no files of the installer. */
async function expectRest(version: string): Promise<void> {
  const { machine } = rig;
  expect(await rig.installed()).toBe(`ii ${version}`);
  expect(await machine.tell('dpkg', '--audit')).toBe('');
  expect(await machine.tell('systemctl', 'is-active', 'thing-agent')).toBe('active');
  const { written, found } = await rig.config();
  expect(found).toBe(written);
  expect(await machine.tell('cat', `/${EXAMPLE}`)).toBe(OURS.trim());
  // The guard ends when it has seen the end in the journal.
  const marks = '/etc/systemd/system/thing-agent-package-agent.service /var/lib/thing-agent/packages/agent/request';
  await machine.tell(
    'timeout',
    '60',
    'sh',
    '-c',
    `while ls ${marks} 2>&1 | grep -v "No such file"; do sleep 0.2; done`,
  );
}

testInFull(
  'restores the repacked previous package and the operator’s configuration if dpkg cannot configure the new one',
  async () => {
    await rig.offer('v0b', '1.0.1', 'refused');
    const report = rig.nextReport();
    await rig.order();
    expect(await report).toMatchObject({ version: 'v0b', outcome: 'rolled-back', code: 'package-refused' });
    await expectRest('1.0');
  },
  { timeout: 300_000 },
);

test('a newer package of the agent is installed from a signed artifact, judged by the agent in it, and kept', async () => {
  await rig.offer('v1', '1.1');
  const report = rig.nextReport();
  const { exitCode, stdout, stderr } = await rig.waitFor('--update-now');
  expect([exitCode, stdout]).toEqual([0, 'Done: v1 is installed.\n']);
  expect(stderr).toContain('the agent itself is being upgraded; waiting for the new version');
  expect(await report).toMatchObject({ version: 'v1', outcome: 'installed' });
  await expectRest('1.1');
  expect(rig.service.world.things).toMatchObject([{ currentVersionId: 'v1', activations: 1 }]);
}, 300_000);

/** Below, too. */
const broken = {
  id: 'v2',
  version: '1.2',
  variant: 'broken',
  outcome: 'rolled-back',
  code: 'package-restored',
  exit: 70,
} as const;
/** Above, too. */
const refused = {
  id: 'v3',
  version: '1.3',
  variant: 'refused',
  outcome: 'rolled-back',
  code: 'package-refused',
  exit: 70,
} as const;
const others = [
  { id: 'v4', version: '1.4', variant: 'stranger', outcome: 'refused', code: 'package-mismatch', exit: 77 },
  { id: 'v5', version: '1.5', variant: 'foreign', outcome: 'refused', code: 'package-architecture', exit: 77 },
] as const;

test.each(
  howMuch<readonly (typeof broken | typeof refused | (typeof others)[number])[]>([broken, refused, ...others], others),
)(
  '$id, version $version, is $variant: that is reported, and what stood before stands',
  async ({ id, version, variant, outcome, code, exit }) => {
    await rig.offer(id, version, variant);
    const report = rig.nextReport();
    const { exitCode, stdout, stderr } = await rig.waitFor('--update-now');
    expect(exitCode).toBe(exit);
    const told = exit === 70 ? new RegExp(`${id} was rolled back( to \\S+)?: agent: `) : `(${code})`;
    expect(exit === 70 ? stdout : stderr).toMatch(told);
    expect(await report).toMatchObject({ version: id, outcome, code });
    await expectRest('1.1');
    expect(rig.service.world.things).toMatchObject([{ currentVersionId: 'v1', activations: 1 }]);
  },
  300_000,
);

test('one whose health is bad is put back by the agent in it', async () => {
  await rig.health(`test "$(dpkg-query --show --showformat='\${Version}' thing-agent)" != 1.6`);
  await rig.offer('v6', '1.6');
  const report = rig.nextReport();
  await rig.order();
  expect(await report).toMatchObject({ version: 'v6', outcome: 'rolled-back', code: 'unhealthy' });
  await expectRest('1.1');
}, 300_000);

test('reinstalls the previous package if the new agent does not start, and blocks other installations until then', async () => {
  await rig.patience(10);
  await rig.offer('v6b', '1.6.1', 'broken');
  const report = rig.nextReport();
  await rig.order();
  const result = 'var/lib/thing-agent/packages/agent/result';
  await expect.poll(() => rig.machine.has(result)).toBe(true);
  expect(await rig.machine.exec('dpkg', '--install', '/packages/1.1.deb')).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining('packages are being updated') as string,
  });
  expect(await report).toMatchObject({ version: 'v6b', outcome: 'rolled-back', code: 'package-restored' });
  await expectRest('1.1');
  await rig.patience(30);
}, 300_000);

/**
 * Waits until dpkg unpacks and a large file of the runtime is half written. The check begins with the request to the
 * installer.
 */
const unpacking = `until test -e /var/lib/thing-agent/packages/agent/request; do sleep 0.05; done
until set -- /usr/lib/thing-agent/*/bin/*.dpkg-new && test -e "$1"; do sleep 0.01; done`;
const killDpkg = `for name in /proc/[0-9]*/comm; do
  read -r comm <"$name" || continue
  process=\${name%/comm}
  case $comm in dpkg*) kill -KILL "\${process#/proc/}" || : ;; esac
done`;

testInFull(
  'dpkg that is killed while it unpacks is run again',
  async () => {
    await rig.offer('v7', '1.7', 'large');
    const report = rig.nextReport();
    await rig.order();
    await rig.machine.tell('timeout', '110', 'sh', '-c', `${unpacking}\n${killDpkg}`);
    expect(await report).toMatchObject({ version: 'v7', outcome: 'installed' });
    await expectRest('1.7');
  },
  { timeout: 300_000 },
);

test('resumes after a power loss while dpkg unpacks', async () => {
  await rig.offer('v8', '1.8', 'large');
  const report = rig.nextReport();
  await rig.order();
  await rig.machine.tell('timeout', '110', 'sh', '-c', unpacking);
  await rig.machine.powerOff();
  await rig.machine.powerOn();
  expect(await report).toMatchObject({ version: 'v8', outcome: 'installed' });
  await expectRest('1.8');
}, 300_000);

/** The version installed before the last one. */
const before = howMuch({ id: 'v7', version: '1.7' }, { id: 'v1', version: '1.1' });

test('rolls back to the previous package on request', async () => {
  const report = rig.nextReport();
  const { exitCode, stdout } = await rig.waitFor('rollback');
  expect([exitCode, stdout]).toEqual([0, `Done: ${before.id} is installed.\n`]);
  expect(await report).toMatchObject({ version: before.id, outcome: 'installed' });
  await expectRest(before.version);
}, 300_000);

testInFull(
  'reports a manually installed package in status, with the result of the last update',
  async () => {
    const { machine } = rig;
    await machine.tell('dpkg', '--install', '--force-confold', '/packages/1.1.deb');
    const status = async (): Promise<string> => (await machine.exec('agent', 'status')).stdout.replaceAll(/\s+/g, ' ');
    await expect
      .poll(status)
      .toContain('agent: thing-agent 1.1, installed manually; the last update had installed 1.7');
  },
  { timeout: 120_000 },
);
