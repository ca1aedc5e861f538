import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import type { NspawnGateway } from '../../../fakes/machine/booting/nspawn-gateway.ts';
import { testInFull } from '../../../full-run.ts';
import { expectQuiet, TrustRig } from './trust-rig.ts';

/** Trust lists and access control on a gateway that really boots. */
const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

let trust: TrustRig;
let gateway: NspawnGateway;

beforeAll(async () => {
  trust = await TrustRig.open();
});
afterAll(async () => {
  await trust[Symbol.asyncDispose]();
});

async function powerCut(): Promise<void> {
  await gateway.powerOff();
  gateway.powerOn();
  await gateway.console.until(/agent started/);
}

async function mainPid(): Promise<string> {
  return gateway.tell('systemctl', 'show', '--value', '--property', 'MainPID', 'thing-agent.service');
}

describe('a trust list', () => {
  beforeEach(async () => {
    gateway = await trust.newGateway();
  });
  afterEach(async () => {
    await expectQuiet(trust);
  });

  test('takes effect while updates are on hold, survives a power loss, and blocks releases of its revoked key before a byte is written', async () => {
    expect(await trust.technician('hold', '--reason', 'the line is being repaired')).toMatchObject({ exitCode: 0 });
    await trust.rig.offerArtifact('trust-1', await trust.desk.list(1, 'first', ...trust.revokesFirst));
    expect(await trust.technician('--update-now')).toMatchObject({
      exitCode: 0,
      stdout: matching(/list 1 is in effect: \+next\.pem, 1 key revoked/),
    });
    expect(trust.rig.currentVersion).toBe('trust-1');
    expect(await trust.technician('status')).toMatchObject({
      stdout: matching(/Trust list +number 1 .*\n[^]*Updates +trust list trust-1 is in effect/),
    });
    const told = ['activated', 'trust-list-applied', 'keys-changed'];
    expect((await trust.securityEvents()).map(({ id }) => id)).toEqual(told);

    await powerCut();
    const { first, next } = trust.desk.keys;
    expect(await trust.keysOfDoctor()).toContain(
      `release.pem ${first.trusted.fingerprint}, revoked, next.pem ${next.trusted.fingerprint}; trust list 1`,
    );
    expect(await trust.technician('status')).toMatchObject({
      stdout: matching(/Updates are on hold until you resume them/),
    });
    expect(await trust.technician('resume')).toMatchObject({ exitCode: 0 });
    const before = await gateway.tell('sha256sum', '/dev/slot-b');
    await trust.rig.offerArtifact('v1', await trust.desk.release('v1', 'first'));
    expect(await trust.technician('--update-now')).toMatchObject({ exitCode: 77, stderr: matching(/\(key-revoked\)/) });
    const refused = (await trust.securityEvents()).slice(told.length);
    expect(refused).toMatchObject([{ id: 'key-rejected', detail: matching(new RegExp(first.trusted.fingerprint)) }]);
    expect(await gateway.tell('sha256sum', '/dev/slot-b')).toBe(before);
    expect(gateway.boots).toEqual(['A', 'A']);

    await trust.rig.offerArtifact(
      'trust-2',
      await trust.desk.list(2, 'next', '--revoke-keys', trust.desk.file('next.pem')),
    );
    expect(await trust.technician('--update-now')).toMatchObject({ exitCode: 0 });
    expect(await trust.technician('status', '--exit-code')).toMatchObject({
      exitCode: 2,
      stdout: matching(/No key is trusted, so no update can be installed/),
    });
  });

  testInFull(
    'abandons a release that a list revokes between staging and an external reboot, and reports it to the service',
    async () => {
      const release = await trust.desk.release('v1', 'first');
      const list = await trust.desk.list(1, 'first', '--revoke-releases', release);
      await trust.rig.offerArtifact('v1', release);
      expect(await trust.technician('--update-now', '--no-reboot')).toMatchObject({ exitCode: 0 });
      await trust.rig.offerArtifact('trust-1', list);
      await gateway.exec(['systemctl', 'reboot'], 'root');
      await gateway.console.until(/the bootloader chose slot B/);
      await gateway.console.until(/the bootloader chose slot A/);
      await gateway.console.until(/trust list 1 is in effect/);
      expect(gateway.boots).toEqual(['A', 'B', 'A']);
      expect(trust.rig.reports).toContainEqual(
        expect.objectContaining({ version: 'v1', outcome: 'rolled-back', code: 'no-longer-trusted' }),
      );
      expect((await trust.securityEvents()).map(({ id }) => id)).toEqual(['activated', 'trust-list-applied']);
    },
  );

  testInFull(
    'a list that the service named while the gateway was off takes effect at its first look; the release of the new key brings it along into the other slot, and all that is known of trust is of root alone',
    async () => {
      expect(await trust.technician('hold')).toMatchObject({ exitCode: 0 });
      await gateway.powerOff();
      await trust.rig.offerArtifact('trust-1', await trust.desk.list(1, 'first', ...trust.revokesFirst));
      gateway.powerOn();
      await gateway.console.until(/the trust list took effect/);
      expect(await trust.technician('resume')).toMatchObject({ exitCode: 0 });

      await trust.rig.offerArtifact('v1', await trust.desk.release('v1', 'next', '--provides', 'security_version:2'));
      expect(await trust.technician('--update-now')).toMatchObject({
        exitCode: 0,
        stdout: matching(/is rebooting into it/),
      });
      await gateway.console.until(/v1 is installed/);
      expect(gateway.boots).toEqual(['A', 'A', 'B']);
      const { first, next } = trust.desk.keys;
      expect(await trust.keysOfDoctor()).toContain(`release.pem ${first.trusted.fingerprint}, revoked`);
      expect(await trust.technician('status', '--json')).toMatchObject({
        stdout: expect.stringContaining(`"signedBy":"${next.trusted.fingerprint}"`) as string,
      });
      await trust.rig.offerArtifact('v2', await trust.desk.release('v2', 'first', '--provides', 'security_version:3'));
      expect(await trust.technician('--update-now')).toMatchObject({
        exitCode: 77,
        stderr: matching(/\(key-revoked\)/),
      });

      const files = [
        'floors.json',
        'trust.json',
        'trust-copy.json',
        'trust-revoked.json',
        'security.json',
        'identity.json',
        'journal.json',
      ];
      const said = await gateway.tell('sh', '-c', `cd /var/lib/thing-agent && stat -c '%a %U %n' ${files.join(' ')}`);
      expect(said.split('\n')).toEqual(files.map((file) => `600 root ${file}`));
    },
  );
});

describe('one gateway', () => {
  beforeAll(async () => {
    gateway = await trust.newGateway();
  });
  afterAll(async () => {
    await expectQuiet(trust);
  });

  testInFull('restores removed sockets within a minute, in the same daemon', async () => {
    const pid = await mainPid();
    await gateway.tell('sh', '-c', 'rm /run/thing-agent/*.sock');
    for (let socket = 0; socket < 3; socket += 1)
      await gateway.console.until(/the control socket was missing or replaced/);
    const modes = await gateway.tell('sh', '-c', "cd /run/thing-agent && stat -c '%a %U %G %n' *.sock");
    expect(modes.split('\n')).toEqual([
      '660 root thing-operators control.sock',
      '600 root thing-agent root.sock',
      '660 root thing-agent status.sock',
    ]);
    for (const user of ['root', 'technician', 'reader']) {
      expect(await gateway.exec(['agent', 'status'], user)).toMatchObject({ stdout: matching(/the daemon runs/) });
    }
    // Only through its own socket may root ask for that.
    const asked = await gateway.exec(['agent', 'install', '/etc/fstab', '--allow-downgrade'], 'root');
    expect(asked.stderr).not.toContain('control-not-permitted');
    expect(await mainPid()).toBe(pid);
  });

  test('who may only look is refused what operators may, which the security log tells', async () => {
    const refused = {
      exitCode: 77,
      stdout: '',
      stderr: matching(/is not permitted for members of thing-agent \(control-not-permitted\)/),
    };
    for (const word of ['hold', 'reboot', 'rollback']) {
      expect(await gateway.exec(['agent', word], 'reader')).toMatchObject(refused);
    }
    expect(await gateway.exec(['agent', 'log', '--security'], 'reader')).toMatchObject(refused);
    const denied = (await trust.securityEvents()).filter(({ id }) => id === 'access-denied');
    expect(denied.map(({ detail }) => detail)).toEqual(
      ['hold', 'reboot', 'rollback', 'securityLog'].map((operation) => `members asked for ${operation}`),
    );
    expect(gateway.boots).toEqual(['A']);
    expect(await trust.technician('status')).toMatchObject({ stdout: matching(/All is well/) });

    expect(await trust.technician('hold')).toMatchObject({ exitCode: 0 });
    expect(await trust.technician('reboot')).toMatchObject({ exitCode: 0 });
    await gateway.console.until(/agent started/);
    expect(gateway.boots).toEqual(['A', 'A']);
    const status = async (): Promise<string> => (await trust.technician('status')).stdout;
    await expect.poll(status).toMatch(/Updates are on hold/); // it checks at its start
  });
});
