import { expect, test } from 'vitest';

import type { ConfigSetup } from '../../../../src/cli/context.ts';
import { ControlError } from '../../../../src/control/control-errors.ts';
import type { DoctorFinding } from '../../../../src/control/reports.ts';
import type { DetectedGateway } from '../../../../src/setup/detect-gateway.ts';
import { Setup } from '../../../../src/setup/setup.ts';
import { type as typeAt } from '../fake-context.ts';
import { fakeAgent } from '../fake-operations.ts';

async function setUp(): Promise<ConfigSetup> {
  const path = '/etc/thing-agent/config.toml';
  return {
    path,
    notes: [],
    questionsLeft: () => [],
    complaint: async () => undefined,
    doubt: () => undefined,
    text: () => '',
    write: async () => ({ path, before: undefined, isOfUnit: true }),
  };
}

// Regression: "FAIL two processes" of a configuration that the daemon had before.
test('examines nothing if a daemon runs, and explains how the daemon reloads its configuration', async () => {
  const daemon = fakeAgent();
  const { exitCode, out } = await typeAt(['setup', '--yes'], { daemon, setup: setUp });
  expect(exitCode).toBe(0);
  expect(out.replaceAll(/\s+/g, ' ')).toMatch(/To apply the new one, run systemctl reload thing-agent, then/);
  expect(daemon.calls).toEqual([]);
});

test('what is to be known comes before the questions', async () => {
  const setup = async (): Promise<ConfigSetup> => ({ ...(await setUp()), notes: ['/x lies in memory'] });
  const { err } = await typeAt(['setup', '--yes'], { daemon: fakeAgent(), setup });
  expect(err).toMatch(/^Note: \/x lies in memory\n/);
});

test('what is to be known of an answer comes behind it, and the answer is taken', async () => {
  const question = {
    name: 'serial-number',
    key: 'device.serial_number',
    text: 'Serial number',
    found: undefined,
  } as const;
  const setup = async (): Promise<ConfigSetup> => ({
    ...(await setUp()),
    questionsLeft: (answers) => (answers['serial-number'] === undefined ? [question] : []),
    doubt: (_question, answer) => `${answer} is odd`,
  });
  const typed = ['GW 1', 'y'];
  const person = () => ({ ask: async () => typed.shift(), [Symbol.dispose]: () => {} });
  const { err, exitCode } = await typeAt(['setup'], { daemon: fakeAgent(), setup, person });
  expect([exitCode, err]).toEqual([0, expect.stringContaining('Note: GW 1 is odd\n')]);
});

test('an unresponsive daemon counts as running, too', async () => {
  const connect = async (): Promise<never> => {
    throw new ControlError('daemon-unresponsive', 'the daemon does not answer');
  };
  const { exitCode, out } = await typeAt(['setup', '--yes'], { connect, setup: setUp });
  expect([exitCode, out.replaceAll(/\s+/g, ' ')]).toEqual([0, expect.stringContaining('systemctl reload thing-agent')]);
});

test('without a daemon setup does the same as doctor, and explains how to start one', async () => {
  const alone = fakeAgent();
  const { out } = await typeAt(['setup', '--yes'], { alone, setup: setUp });
  expect(alone.calls).toEqual([['doctor', {}]]);
  expect(out).toMatch(/Next step: systemctl enable --now thing-agent$/m);
});

// Regression: of a file that --config named, "systemctl reload thing-agent", which reads another one.
test.each([
  ['a daemon', { daemon: fakeAgent() }],
  ['no daemon', {}],
] as const)('with %s, setup reports a file that the unit does not read', async (_, world) => {
  const setup = async (): Promise<ConfigSetup> => ({
    ...(await setUp()),
    write: async () => ({ path: '/srv/x.toml', before: undefined, isOfUnit: false }),
  });
  const { out } = await typeAt(['setup', '--yes'], { alone: fakeAgent(), ...world, setup });
  expect(out).not.toContain('systemctl');
  expect(out.replaceAll(/\s+/g, ' ')).toMatch(
    /names another file. To run a daemon with this file: agent --config \/srv\/x\.toml run/,
  );
});

// Regression: "FAIL trial timer: no listener on /run/thing-agent-package.sock" right after the package was installed.
test('reports a missing trial timer only after the agent was started', async () => {
  const trialTimer = { name: 'trial timer', ok: false, detail: 'no listener' };
  const key = { name: 'trusted keys', ok: false, detail: 'there are none' };
  const told = async (findings: readonly DoctorFinding[]): Promise<readonly [string, string]> => {
    const alone = fakeAgent({ doctor: async () => ({ findings: [...findings] }) });
    const setup = setUp;
    const { out } = await typeAt(['setup', '--yes'], { alone, setup });
    return [out, (await typeAt(['setup', '--yes', '--json'], { alone, setup })).out];
  };
  const [text, json] = await told([trialTimer, key]);
  expect(text).toMatch(/FAIL +trusted keys/);
  expect(text).toMatch(/enable --now thing-agent\nThis also starts the trial timer\. Afterwards, run agent doctor\.$/m);
  expect(JSON.parse(json)).toMatchObject({ findings: [key] });
  const [works] = await told([{ ...trialTimer, ok: true }]);
  expect(works).toMatch(/ok +trial timer/);
  expect(works).not.toContain('It starts');
});

// Regression: "targets.gateway.slots.A was not found" on a Debian without slots, where an interactive setup offered the
// package.
test('without questions, setup chooses the agent’s package on a Debian without slots, and reports that', async () => {
  const debian: DetectedGateway = {
    partitions: [],
    bootloaders: [{ kind: 'grub', environment: '/boot/grub/grubenv' }],
    serialPorts: [],
    deviceType: undefined,
    releaseKeys: [],
    serialNumber: 'SN-1',
    imageVersion: undefined,
    packages: new Set(['thing-agent']),
  };
  const given = { service: { url: 'https://x' }, device: { device_type: 'y' }, trust: { keys: ['/z.pem'] } };
  const written: string[] = [];
  const setup = async (): Promise<ConfigSetup> => {
    const path = '/etc/thing-agent/config.toml';
    const check = async (): Promise<void> => {};
    const real = new Setup({ path, facts: debian, given, check });
    const write: ConfigSetup['write'] = async (text) => {
      written.push(text);
      return { path, before: undefined, isOfUnit: true };
    };
    return {
      ...(await setUp()),
      questionsLeft: (a) => real.questionsLeft(a),
      text: (a) => real.text(a),
      write,
    };
  };
  const { exitCode, err } = await typeAt(['setup', '--yes'], { daemon: fakeAgent(), setup });
  expect([exitCode, err]).toEqual([
    0,
    expect.stringMatching(/^Note: no slots found; updates replace the package thing-agent$/m),
  ]);
  expect(written).toEqual([expect.stringContaining('[targets.agent]\nkind = "package"\npackage = "thing-agent"\n')]);
});
