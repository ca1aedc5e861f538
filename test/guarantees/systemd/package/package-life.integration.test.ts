import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { agentVersion } from '../../../../src/version.ts';
import { randomContent } from '../../../fakes/service/firmware-content.ts';
import type { StandIn } from '../../../fakes/service/stand-in.ts';
import { testInFull } from '../../../full-run.ts';
import { howMuch, isFull } from '../../../full.ts';
import { makeKeyPair } from '../../../unit-and-integration/firmware/artifact/keys.ts';
import { debOf, LifeRig, noDatapoints } from './life-rig.ts';
import type { PackageMachine } from './package-machine.ts';

/** Two versions of the package, on a booted Debian. Each test continues from the state that the previous one left. */

const { older, newer } = LifeRig;

const TIMER = 'thing-agent-trial.timer';

let rig: LifeRig;
let machine: PackageMachine;
let service: StandIn;

beforeAll(async () => {
  rig = await LifeRig.open();
  ({ machine, service } = rig);
}, 600_000);
afterAll(async () => {
  await rig?.[Symbol.asyncDispose]();
});

/** If it was stopped for a moment. */
async function comesBack(): Promise<string> {
  await expect.poll(async () => rig.isActive()).toBe('active');
  return rig.isActive();
}

/** True for the packages themselves, the test's own files, and systemd's records of each unit until the next start. */
function isOfOthers(path: string): boolean {
  return path.startsWith('/packages/') || path.startsWith('/var/lib/systemd/') || path.startsWith('/usr/share/');
}

/**
 * Chooses steps of dpkg: in full, each program that its scripts start and every nth other step; otherwise the pinned
 * ones.
 */
async function chosenSteps(pinned: readonly string[]): Promise<readonly (string | number)[]> {
  if (!isFull) return pinned;
  const steps = await rig.dpkg.steps('--install', debOf(newer));
  const scripts = steps.findIndex((step) => step.includes('thing-agent.prerm'));
  return [...steps.entries()].flatMap(([index, step]) =>
    index % 13 === 0 || (index >= scripts && step.includes(' starts ')) ? [index + 1] : [],
  );
}

describe('the package', () => {
  test('is installed, even if killed in between, and starts nothing before it is configured', async () => {
    await rig.dpkg.kill('systemd-sysusers thing-agent.conf', '--install', debOf(older));
    await machine.tell('dpkg', '--configure', '-a');
    expect(await rig.installed()).toBe(`installed ${older}`);
    expect(await rig.isActive()).toBe('inactive');
    expect(await machine.tell('agent', '--version')).toBe(`agent ${agentVersion}`);
    expect(await machine.tell('getent', 'group', 'thing-agent', 'thing-operators')).toMatch(
      /^thing-agent[^]*thing-operators/,
    );
  });

  test('starts when it is enabled, and needs only its configuration', async () => {
    await machine.put('etc/thing-agent/config.toml', rig.config());
    await machine.put('etc/thing-agent/trust/release.pem', makeKeyPair('ecdsa-p256').publicPem);
    await machine.tell('systemctl', 'enable', '--now', 'thing-agent');
    await machine.console.until(/agent started/);
    await machine.console.until(/activated serialNumber=GW-1/);
    expect(await rig.isActive()).toBe('active');
    for (const is of ['is-active', 'is-enabled'])
      expect(await machine.tell('systemctl', is, TIMER)).toBe(is === 'is-active' ? 'active' : 'enabled');
    service.fail(noDatapoints);
    await machine.tell('agent', 'datapoint', 'send', 'level', '3');
    expect(await rig.memory()).toMatchObject({ hasSpool: true });
  });

  test.each(howMuch([newer, older], [newer]))(
    'is exchanged for version %s, which takes over the service and all that it keeps',
    async (version) => {
      const before = await rig.memory();
      await rig.installWell(version);
      await machine.console.until(/agent started/);
      expect(await rig.isActive()).toBe('active');
      expect(await rig.memory()).toEqual(before);
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

  testInFull('waits for an update that is being staged, and refuses where that takes too long', async () => {
    service.fail({ operation: 'firmware', times: 'always', fault: { kind: 'silence', afterBytes: 500_000 } });
    service.world.addVersion({ id: 'v1', firmware: randomContent(2_000_000) });
    service.world.targetVersionId = 'v1';
    const called = service.nextCall('firmware');
    const update = machine.exec('agent', '--update-now');
    await called;
    await machine.console.until(/staging: slot B/);
    const [before, after] = [await rig.installed(), await rig.other()];
    const process = await rig.mainPid('thing-agent.service');
    expect(await rig.install(after, 'env', 'THING_AGENT_PATIENCE=1')).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('an update is running') as string,
    });
    expect(await rig.installed()).toBe(before);
    expect(await rig.mainPid('thing-agent.service')).toBe(process);
    const waited = rig.install(after, 'systemd-cat');
    await machine.console.until(/waiting for the running update/);
    expect(await rig.status()).toMatchObject({ activity: { operation: 'update' } });
    await machine.tell('agent', 'cancel');
    expect(await update).toMatchObject({ exitCode: 75 });
    expect(await waited).toMatchObject({ exitCode: 0 });
    expect(await rig.installed()).toBe(`installed ${after}`);
    await machine.console.until(/agent started/);
    service.world.targetVersionId = undefined;
    service.clearFaults();
    service.fail(noDatapoints);
  });

  test('is killed with its scripts at any point, resumes, and the agent works throughout', async () => {
    const pinned = ['renames /usr/lib/thing-agent/agent'];
    expect(await rig.killAtEach(await chosenSteps(pinned), async () => rig.isActive())).toEqual([]);
  }, 600_000);

  // Regression: a daemon loads parts late, and installed nothing once its files were gone.
  testInFull('runs soon after it was unpacked under a running daemon without being configured', async () => {
    const other = await rig.other();
    const before = await rig.mainPid('thing-agent');
    await machine.tell('dpkg', '--unpack', debOf(other));
    const patience = { timeout: 150_000, interval: 1_000 };
    await expect.poll(async () => rig.mainPid('thing-agent'), patience).not.toBe(before);
    expect(await comesBack()).toBe('active');
    await machine.tell('test', '-e', await rig.programOf('thing-agent'));
    await machine.tell('dpkg', '--configure', '--pending');
    expect([await comesBack(), await rig.installed()]).toEqual(['active', `installed ${other}`]);
    await rig.installWell(await rig.other());
  });

  test('keeps identity, journal and spool when it is removed, and has them again when it is back', async () => {
    const before = await rig.memory();
    await rig.dpkg.kill('removes /usr/lib/thing-agent/agent', '--remove', 'thing-agent');
    await machine.tell('dpkg', '--remove', 'thing-agent');
    expect(await rig.isActive()).toBe('inactive');
    const stopped = ['thing-agent-package.socket', TIMER];
    expect((await machine.exec('systemctl', 'is-active', ...stopped)).stdout).toBe('inactive\n'.repeat(stopped.length));
    expect(
      ['usr/lib/thing-agent', 'usr/bin/agent', 'var/cache/thing-agent'].filter((path) => machine.has(path)),
    ).toEqual([]);
    await rig.installWell(newer);
    await machine.console.until(/agent started/);
    expect(await rig.memory()).toEqual(before);
    expect(await machine.tell('systemctl', 'is-active', TIMER)).toBe('active');
  });

  test('leaves only groups and the operator’s keys after a purge, and can be installed from the start', async () => {
    await machine.put('var/lib/thing-agent/packages/agent/request', 'id=asked\n');
    for (const further of ['', '.2']) await machine.put(`etc/thing-agent/config.toml.before${further}`, '');
    await machine.put('etc/systemd/system/thing-agent-package-agent.service', '[Service]\nExecStart=sleep 600\n');
    await machine.tell('systemctl', 'add-wants', 'multi-user.target', 'thing-agent-package-agent.service');
    await machine.tell('systemctl', 'start', 'thing-agent-package-agent.service');
    expect(await machine.exec('dpkg', '--purge', 'thing-agent')).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('packages are being updated') as string,
    });
    await machine.tell('env', 'THING_AGENT_PATIENCE=0', 'dpkg', '--remove', 'thing-agent');
    await rig.dpkg.kill('starts find /var/lib/thing-agent', '--purge', 'thing-agent');
    await machine.tell('dpkg', '--purge', 'thing-agent');
    const left = 'find / -xdev ( -name *thing-* -o -name *thing_* ) -not -path /proc/* -not -path /sys/*';
    const found = (await machine.tell(...left.split(' '))).split('\n').filter((path) => !isOfOthers(path));
    expect(found).toEqual(['/etc/thing-agent']);
    expect(await machine.tell('find', '/run', '-name', '*thing-*')).toBe('');
    expect(await machine.tell('systemctl', 'list-units', '--all', '--plain', '--no-legend', 'thing-*')).toBe('');
    expect(machine.has('etc/thing-agent/trust/release.pem')).toBe(true);
    expect(await readdir(join(machine.root, 'etc/thing-agent'))).toEqual(['trust']);
    expect(await machine.tell('getent', 'group', 'thing-agent')).toMatch(/^thing-agent/);
    expect(await readdir(join(machine.root, 'etc/systemd/system'))).not.toContain('emergency.target.wants');
    await rig.installWell(older);
    expect(await rig.isActive()).toBe('inactive');
    expect((await readdir(join(machine.root, 'etc/thing-agent'))).sort()).toEqual(['config.example.toml', 'trust']);
  });

  testInFull('is set up by a factory, and all is well', async () => {
    service.clearFaults();
    await machine.put('root/factory.toml', rig.config());
    await machine.tell('agent', 'setup', '--yes', '--from', '/root/factory.toml');
    await machine.tell('systemctl', 'enable', '--now', 'thing-agent');
    await machine.console.until(/activated serialNumber=GW-1/);
    expect(await machine.exec('agent', 'doctor')).toMatchObject({ exitCode: 0 });
  });
});
