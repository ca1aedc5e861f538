import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { Answer } from '../../../../src/helper/link/link.ts';
import { PROTOCOL } from '../../../../src/helper/verbs.ts';
import { testInFull } from '../../../in-full.ts';
import { buildArtifact } from '../../../rooms/firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../../../rooms/firmware/artifact/keys.ts';
import { Impostor, reachSocket, serving } from '../../../rooms/helper/impostor.ts';
import type { Answers } from '../../../rooms/helper/impostor.ts';
import type { NspawnGateway } from '../../../stand-ins/machine/booting/nspawn-gateway.ts';
import type { Difference } from '../../../stand-ins/machine/booting/slot-images.ts';
import { DEVICE_TYPE, GatewayRig } from '../gateway-rig.ts';
import { systemdDirectory } from '../installed-root.ts';
import { askedByRoot, breakOutOfHelper, endHelper, rebootsLater, startsWhileBroken } from './in-helper.ts';

/** One gateway, which an update makes two processes: each test goes on where the one before has ended. */
const CONFIG = '/etc/thing-agent/config.toml';
const HEALTHY = '{ deadline = "30s", commands = [["/usr/lib/app/healthy"]], units = ["dbus.service"], steady = "1s" }';
const STATE = '/var/lib/thing-agent';
const DROP_INS = '/etc/systemd/system/thing-agent.service.d';
const SOCKET = '/run/thing-helper/helper.sock';
const NODE = '/usr/lib/thing-agent/tree.a/bin/node';
/** What `systemd-analyze security` says at most, in tenths. */
const MOST_EXPOSURE = { 'thing-agent.service': 13, 'thing-helper.service': 7 };

const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

const TRAY = '/run/thing-helper/tray';

let stack: AsyncDisposableStack;
let rig: GatewayRig;
let gateway: NspawnGateway;

beforeAll(async () => {
  stack = new AsyncDisposableStack();
  rig = stack.use(await GatewayRig.open());
  gateway = stack.use(await rig.gateway());
});
afterAll(async () => {
  await stack.disposeAsync();
});

/** As the page for integrators says. */
async function twoProcesses(): Promise<Difference> {
  const config = rig.configText({ health: HEALTHY }).replace('[system]', `[system]\nhelper = "${SOCKET}"`);
  const dropIn = await readFile(join(systemdDirectory, 'two-processes/thing-agent.conf'), 'utf8');
  return {
    [CONFIG]: config,
    [`${DROP_INS}/10-two-processes.conf`]: dropIn,
    [`${DROP_INS}/override.conf`]: '[Service]\nReadWritePaths=-/srv\n',
  };
}

async function show(unit: string, property: string): Promise<string> {
  return gateway.tell('systemctl', 'show', '--value', '--property', property, unit);
}

async function ownersOf(folder: string): Promise<readonly string[]> {
  return (await gateway.tell('sh', '-c', `cd ${folder} && stat -c '%a %U %n' *`)).split('\n');
}

/** Which it is after ten seconds in which nothing was asked. */
async function helperIsGone(): Promise<void> {
  const poll = { timeout: 60_000, interval: 1000 };
  await expect.poll(async () => show('thing-helper.service', 'ActiveState'), poll).toBe('inactive');
}

describe('a gateway of one process', () => {
  test('is two after an update, with the identity and the points that it had, and the helper commits', async () => {
    rig.service.fail({ operation: 'postDatapoints', times: 'always', fault: { kind: 'status', status: 503 } });
    expect(await gateway.exec(['agent', 'datapoint', 'send', 'level', '7'])).toMatchObject({ exitCode: 0 });
    await rig.offer('v1', await twoProcesses(), ['--provides', 'security_version:2']);
    expect(await gateway.exec(['agent', '--update-now'])).toMatchObject({ exitCode: 0 });
    await gateway.console.until(/the helper is up/);
    await gateway.console.until(/v1 is installed/);
    expect(gateway.boots).toEqual(['A', 'B']);
    rig.service.clearFaults();
    const [thing] = rig.service.world.things;
    await expect.poll(() => thing?.datapoints.get('level'), { timeout: 60_000 }).toMatchObject([{ value: 7 }]);
    expect(rig.service.world.things).toMatchObject([{ activations: 1, currentVersionId: 'v1' }]);
    expect(await show('thing-agent.service', 'User')).toBe('thing-agent');
    expect(await show('thing-agent.service', 'ReadWritePaths')).toBe(
      '-/var/lib/thing-agent -/run/thing-helper/tray -/srv',
    );
    expect(await ownersOf(`${STATE}/agent`)).toEqual(
      ['history.json', 'identity.json', 'security.json', 'spool.db', 'spool.db-wal'].map((n) => `600 thing-agent ${n}`),
    );
    expect(await ownersOf(STATE)).toContain('600 root journal.json');
    expect(await ownersOf('/run/thing-helper')).toContain('640 thing-agent tray');
  });

  test('answers root and operators as before, and its helper ends when nothing is asked, and comes again', async () => {
    for (const user of ['root', 'technician', 'reader']) {
      expect(await gateway.exec(['agent', 'status'], user)).toMatchObject({ stdout: matching(/All is well/) });
    }
    expect(await gateway.exec(['agent', 'status'], 'nobody')).toMatchObject({ exitCode: 77 });
    expect(await gateway.exec(['agent', 'hold'], 'reader')).toMatchObject({ exitCode: 77 });
    const doctor = await gateway.exec(['agent', 'doctor'], 'technician');
    expect(doctor.stdout).toMatch(/ok +helper +two processes/);
    expect(doctor.stdout).not.toMatch(/FAIL/);
    await helperIsGone();
    expect(await gateway.exec(['agent', '--update-now'], 'technician')).toMatchObject({ exitCode: 0 });
    expect(await show('thing-helper.service', 'ActiveState')).toBe('active');
    expect(await show('thing-helper.service', 'Result')).toBe('success');
  });

  testInFull('starts without a helper that it can reach, and says so', async () => {
    await gateway.tell('systemctl', 'mask', '--runtime', '--now', 'thing-helper.socket');
    await gateway.tell('systemctl', 'restart', 'thing-agent.service');
    expect(await show('thing-agent.service', 'ActiveState')).toBe('active');
    expect((await gateway.exec(['agent', 'status'])).stdout).toMatch(/Broken: .*nobody answers on .*helper/);
    await gateway.tell('systemctl', 'unmask', '--runtime', 'thing-helper.socket');
    await gateway.tell('systemctl', 'restart', 'thing-agent.service');
    expect(await gateway.exec(['agent', 'check'])).toMatchObject({ exitCode: 0 });
  });

  testInFull('starts a helper that cannot start every ten seconds, and answers when one can', async () => {
    await endHelper(gateway);
    expect([2, 3]).toContain(await startsWhileBroken(gateway, 25));
    expect(await gateway.exec(['agent', '--update-now'], 'root')).toMatchObject({ exitCode: 0 });
  });

  testInFull('lets a reboot_command reboot later, in the background', async () => rebootsLater(gateway, NODE, CONFIG));

  test.each(Object.entries(MOST_EXPOSURE))('%s is no more exposed than %i tenths', async (unit, most) => {
    const { stdout } = await gateway.exec(['systemd-analyze', 'security', '--no-pager', unit], 'root');
    const tenths = Number(/Overall exposure level for \S+: (\d\.\d)/.exec(stdout)?.[1]) * 10;
    expect(tenths).toBeLessThanOrEqual(most);
  });

  test('lends the agent the ports of boards and sensors by their group, as the page says', async () => {
    await gateway.tell('sh', '-c', 'chgrp dialout /dev/full && chmod 660 /dev/full');
    const opens = async (...dropIn: readonly string[]): Promise<boolean> => {
      const rights = [
        'User=thing-agent',
        'PrivateUsers=yes',
        'DevicePolicy=closed',
        'DeviceAllow=char-* rw',
        ...dropIn,
      ];
      const properties = rights.map((one) => `--property=${one}`);
      const command = ['systemd-run', '--wait', '--quiet', ...properties, 'sh', '-c', ': <> /dev/full'];
      return (await gateway.exec(command, 'root')).exitCode === 0;
    };
    expect(await opens('PrivateDevices=no', 'SupplementaryGroups=dialout')).toBe(true);
    expect(await opens('PrivateDevices=no')).toBe(false);
  });
});

/** Somebody in the agent's place, as its user: it has the agent's socket, and no unit around it that would hold it back. */
describe('who has broken into the agent', () => {
  const thief = makeKeyPair('ecdsa-p256');
  const order = { name: 'file', reboot: true, force: true };

  beforeAll(async () => {
    await gateway.tell('systemctl', 'stop', 'thing-agent.service');
    await gateway.tell('systemctl', 'start', 'thing-helper.socket');
  });
  afterAll(async () => {
    await gateway.tell('systemctl', 'start', 'thing-agent.service');
    await gateway.console.until(/the agent is up/);
  });

  async function artifact(name: string, securityVersion: number, key = rig.keys.privateKey): Promise<Buffer> {
    const files = [{ name: 'rootfs.ext4', content: Buffer.alloc(100_000, name) }];
    const provides = { security_version: String(securityVersion) };
    return buildArtifact({ name, devices: [DEVICE_TYPE], files, key, provides });
  }

  /** While the helper winds up the connection before, it is asked again. */
  async function refusal(answers: Answers, verb: string, input: unknown): Promise<string> {
    for (;;) {
      using impostor = new Impostor(await reachSocket(gateway.place(SOCKET)), answers);
      if ((await impostor.refusal('attach', { protocol: PROTOCOL })).startsWith('done'))
        return await impostor.refusal(verb, input);
      expect(impostor.notes).toEqual([{ topic: 'leaving', content: { why: 'busy' } }]);
    }
  }

  test('boots nothing unsigned, nothing older, and names no device', async () => {
    const bootOrder = ['sh', '-c', 'fw_printenv | grep ^BOOT'] as const;
    const before = await gateway.tell(...bootOrder);
    const image = serving(Buffer.alloc(100_000, 'image'));
    expect(await refusal(image, 'install', order)).toBe('image-unsigned');
    const foreign = serving(await artifact('foreign', 9, thief.privateKey));
    expect(await refusal(foreign, 'install', order)).toBe('signature-invalid');
    const older = serving(await artifact('older', 1));
    expect(await refusal(older, 'install', order)).toBe('downgrade');
    expect(await refusal(older, 'install', { ...order, allowDowngrade: true })).toBe('helper-refused');
    expect(await refusal({}, 'rollback', { reboot: true })).toBe('helper-refused');
    expect(await refusal({}, 'rollback', { reboot: true, force: true })).toBe('helper-refused');
    expect(await refusal({}, 'openSlot', { path: '/dev/sda', slot: 'A' })).toBe('the helper hung up');
    expect(gateway.boots).toEqual(['A', 'B']);
    expect(await gateway.tell(...bootOrder)).toBe(before);
  });

  test('looks into no helper, and ends none', async () => {
    const stuck = Promise.withResolvers<Answer>();
    const asked = refusal({ targetVersion: async () => stuck.promise }, 'look', { manual: true, force: false });
    const pid = async (): Promise<string> => show('thing-helper.service', 'MainPID');
    await expect.poll(pid, { timeout: 60_000 }).not.toBe('0');
    const helper = await pid();
    const tries = [
      `openSync('/proc/${helper}/mem', 'r+')`,
      `readFileSync('/proc/${helper}/environ')`,
      `openSync('/proc/${helper}/fd/3')`,
      `process.kill(${helper}, 'SIGKILL')`,
      `process.kill(${helper}, 'SIGSTOP')`,
    ];
    expect(await asThief(tries)).toEqual(tries.map((one) => `${one} refused`));
    stuck.resolve({ output: { id: 'v1', name: 'v1' } });
    expect(await asked).toMatch(/^done/);
    expect(await pid()).toBe(helper);
  });

  /** Each of these, with how it ended. */
  async function asThief(tries: readonly string[]): Promise<readonly string[]> {
    const script = `const {readFileSync,readdirSync,writeFileSync,renameSync,openSync,unlinkSync} = require('node:fs');
      for (const one of ${JSON.stringify(tries)}) { try { eval(one); console.log(one, 'done'); } catch ({ code, message }) {
        console.log(one, /^(EACCES|EPERM|EROFS)$/.test(code) ? 'refused' : message); } }`;
    return (await gateway.exec([NODE, '-e', script], 'thing-agent')).stdout.trim().split('\n');
  }

  test('reads what is of others, writes a device, the state or the boot environment, becomes root and asks systemd: all refused', async () => {
    const files = [
      `readFileSync('${STATE}/journal.json')`,
      `readFileSync('/etc/shadow')`,
      `readdirSync('/root')`,
      `writeFileSync('${STATE}/journal.json', '{}')`,
      `writeFileSync('${STATE}/floors.json', '{}')`,
      `renameSync('${STATE}/agent', '${STATE}/other')`,
      `openSync('/dev/slot-a', 'r')`,
      `openSync('/dev/slot-b', 'r+')`,
      `openSync('/boot/environment', 'r+')`,
      `writeFileSync('/boot/other', '')`,
      `writeFileSync('/run/thing-helper/committed', '')`,
      `writeFileSync('/run/thing-helper/permit.json', '{}')`,
      `unlinkSync('/run/thing-helper/tray')`,
      `renameSync('/run/thing-helper/tray', '/run/thing-helper/other')`,
      `unlinkSync('${SOCKET}')`,
      `openSync('/var/cache/thing-agent')`,
      `writeFileSync('/run/systemd/system/mine.service', '')`,
      `process.setuid(0)`,
      `process.kill(1, 'SIGTERM')`,
    ];
    expect(await asThief(files)).toEqual(files.map((one) => `${one} refused`));
    for (const command of [
      ['systemctl', 'stop', 'thing-helper.socket'],
      ['systemctl', 'reboot'],
      ['systemctl', 'set-property', 'thing-helper.service', 'DeviceAllow=char-* rw'],
      ['systemd-run', '--wait', 'true'],
      ['mount', '-t', 'tmpfs', 'none', '/mnt'],
      ['setpriv', '--reuid=0', 'true'],
    ]) {
      const { exitCode } = await gateway.exec(command, 'thing-agent');
      expect([...command, exitCode === 0 ? 'done' : 'refused']).toEqual([...command, 'refused']);
    }
    const others = `require('node:net').connect('${SOCKET}').on('error', ({ code }) => console.log(code))`;
    for (const user of ['reader', 'technician', 'nobody'])
      expect(await gateway.exec([NODE, '-e', others], user)).toMatchObject({ stdout: 'EACCES\n' });
  });
});

describe('who has broken into the helper', () => {
  test('reaches no socket of PID 1 or of another service, no device, process or file that gives it more', async () => {
    await endHelper(gateway);
    expect(await breakOutOfHelper(gateway, NODE)).toEqual({
      tried: 15,
      done: [],
      reached: [
        '/run/systemd/journal/dev-log',
        '/run/systemd/journal/socket',
        SOCKET,
        '/run/thing-helper/machine.sock',
      ],
    });
  });

  test('asks for a reboot by a word, as nobody but root can, and there is none for anything else, however many ask', async () => {
    const words = ['poweroff', 'reboot --force', 'own-reboot x', 'net-timer'];
    expect(await askedByRoot(gateway, NODE, words)).toBe('64\n64\n64\n0 active\n0 active');
    const denied = `require('node:net').connect('/run/thing-helper/machine.sock').on('error', ({ code }) => console.log(code))`;
    expect(await gateway.exec([NODE, '-e', denied], 'thing-agent')).toMatchObject({ stdout: 'EACCES\n' });
  });

  // Seen: a link there made a file anywhere, and whatever it led to was the agent's after the next start of the socket.
  test('has nothing of others given to the agent by what it puts into the place of the tray', async () => {
    await gateway.write('/run/precious', 'of root');
    await gateway.tell('ln', '-sfn', '/run/precious', TRAY);
    await gateway.tell('systemctl', 'restart', 'thing-helper.socket');
    const owners = await gateway.tell('stat', '--format=%a %U %F', '/run/precious', TRAY);
    expect(owners).toMatch(/^\d+ root regular file\n640 thing-agent regular empty file$/);
    await gateway.tell('systemctl', 'restart', 'thing-agent.service');
    await gateway.console.until(/the agent is up/);
  });
});

describe('the same gateway', () => {
  test('stages by its helper, and falls back from an unhealthy one, whose older agent of one process knows who it is', async () => {
    // As the page says: of all devices the helper needs these alone.
    const slots = 'DeviceAllow=\nDeviceAllow=/dev/slot-a rw\nDeviceAllow=/dev/slot-b rw\n';
    await gateway.write('/run/systemd/system/thing-helper.service.d/slots.conf', `[Service]\n${slots}`);
    await gateway.tell('systemctl', 'daemon-reload');
    await endHelper(gateway);
    const health = '{ deadline = "3s", commands = [["/usr/lib/app/healthy"]] }';
    await rig.offer(
      'v2',
      {
        '/usr/lib/thing-agent/own-folders': undefined,
        '/usr/lib/app/healthy': '#!/bin/sh\necho "the application does not answer" >&2\nexit 1\n',
        [CONFIG]: rig.configText({ health }),
      },
      ['--provides', 'security_version:2'],
    );
    await gateway.tell('touch', '--date=@0', TRAY);
    expect(await gateway.exec(['agent', '--update-now', '--no-reboot'], 'root')).toMatchObject({ exitCode: 0 });
    expect(await gateway.tell('stat', '--format=%Y %s', TRAY)).toMatch(/^[1-9]\d+ 0$/); // used, and empty again
    expect(await gateway.exec(['agent', '--update-now'], 'root')).toMatchObject({
      exitCode: 0,
      stdout: matching(/v2 is staged in slot A; the gateway reboots into it now/),
    });
    await gateway.console.until(/the bootloader chose slot A/);
    await gateway.console.until(/v2 was rolled back/);
    await gateway.console.until(/v2 is held back/);
    expect(gateway.boots).toEqual(['A', 'B', 'A', 'B']);
    expect(rig.reports).toMatchObject([
      { version: 'v1', outcome: 'installed' },
      { version: 'v2', outcome: 'rolled-back', code: 'unhealthy', reason: matching(/does not answer/) },
    ]);
    expect(rig.service.world.things).toMatchObject([{ activations: 1, currentVersionId: 'v1' }]);
  });

  test('does all in one process where root asks and neither agent nor helper runs, and is two again', async () => {
    await gateway.tell('systemctl', 'stop', 'thing-agent.service', 'thing-helper.socket', 'thing-helper.service');
    const resumed = await gateway.exec(['agent', 'resume'], 'root');
    expect(resumed).toMatchObject({ exitCode: 0, stderr: matching(/neither the agent nor its helper runs/) });
    expect(await ownersOf(STATE)).toEqual(expect.arrayContaining(['600 root identity.json', '600 root spool.db']));
    await gateway.tell('systemctl', 'start', 'thing-agent.service');
    await gateway.console.until(/the agent is up/);
    expect(await ownersOf(`${STATE}/agent`)).toContain('600 thing-agent identity.json');
    expect(await gateway.exec(['agent', 'status'], 'reader')).toMatchObject({ stdout: matching(/thing-1/) });
  });

  testInFull('does what root asks for while no agent runs, as the agent’s user', async () => {
    await gateway.tell('systemctl', 'stop', 'thing-agent.service');
    await gateway.tell('systemctl', 'start', 'thing-helper.socket');
    expect(await gateway.exec(['agent', '--update-now'], 'root')).toMatchObject({ exitCode: 77 });
    expect(await gateway.exec(['agent', 'status'], 'root')).toMatchObject({ exitCode: 0, stdout: matching(/v1/) });
    expect((await ownersOf(`${STATE}/agent`)).filter((line) => !line.includes(' thing-agent '))).toEqual([]);
    const { uid } = await stat(join(gateway.state, 'agent'));
    expect(uid).not.toBe(0);
  });

  test('is one process again where the image says so, with all that it had', async () => {
    await gateway.write('/run/one.toml', rig.configText({ health: HEALTHY }));
    await gateway.tell('sh', '-c', `mount --bind /run/one.toml ${CONFIG} && mount -t tmpfs none ${DROP_INS}`);
    await gateway.tell('systemctl', 'daemon-reload');
    await gateway.tell('systemctl', 'restart', 'thing-agent.service');
    await gateway.console.until(/the agent is up/);
    expect(await show('thing-agent.service', 'User')).toBe('');
    await expect.poll(async () => show('thing-helper.socket', 'ActiveState'), { timeout: 60_000 }).toBe('inactive');
    for (const user of ['root', 'technician', 'reader'])
      expect(await gateway.exec(['agent', 'status'], user)).toMatchObject({ stdout: matching(/thing-1/) });
    expect(await gateway.exec(['agent', 'check'], 'technician')).toMatchObject({ exitCode: 0 });
    const history = await gateway.exec(['agent', 'history'], 'technician');
    for (const version of [/\bv1\b/, /\bv2\b/]) expect(history.stdout).toMatch(version);
    expect(await ownersOf(STATE)).toEqual(expect.arrayContaining(['600 root identity.json', '600 root spool.db']));
    expect(await gateway.tell('ls', `${STATE}/agent`)).toBe('');
    expect(await gateway.tell('sh', '-c', `ls ${STATE} | grep -c other || :`)).toBe('0');
    expect(rig.service.world.things).toMatchObject([{ activations: 1, currentVersionId: 'v1' }]);
  });

  testInFull(
    'stays one process where the configuration names a helper and nothing gives the agent a user, and says so',
    async () => {
      const line = rig.configText({ health: HEALTHY }).replace('[system]', `[system]\nhelper = "${SOCKET}"`);
      await gateway.write('/run/line.toml', line);
      await gateway.tell('sh', '-c', `umount ${CONFIG} && mount --bind /run/line.toml ${CONFIG}`);
      await gateway.tell('systemctl', 'restart', 'thing-agent.service');
      const runsAsRoot = matching(
        /thing-agent\.service\s+is\s+not\s+linked\s+to\s+the\s+helper[^]*runs\s+as\s+root[^]*ln\s+-s/,
      );
      await expect
        .poll(async () => (await gateway.exec(['agent', 'status'], 'reader')).stdout, { timeout: 60_000 })
        .toEqual(runsAsRoot);
      expect(await gateway.exec(['agent', 'doctor'], 'technician')).toMatchObject({ exitCode: 70, stdout: runsAsRoot });
      expect(await gateway.exec(['agent', 'config', 'check'], 'root')).toMatchObject({
        exitCode: 78,
        stdout: runsAsRoot,
      });
      expect(await gateway.exec(['agent', 'check'], 'root')).toMatchObject({ exitCode: 0 });
      expect(await gateway.tell('ls', `${STATE}/agent`)).toBe('');
      expect(rig.service.world.things).toMatchObject([{ activations: 1, currentVersionId: 'v1' }]);
    },
  );
});
