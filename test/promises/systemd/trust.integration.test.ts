import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';

import type { Finished, NspawnGateway } from '../../stand-ins/machine/booting/nspawn-gateway.ts';
import { GatewayRig } from './gateway-rig.ts';
import { ReleaseDesk } from './release-desk.ts';

/** Lists of keys and revocations, and who may ask, on a gateway that really boots. */
const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);
const NEVER_LOGGED =
  /EACCES|EPERM|EROFS|permission denied|operation not permitted|read-only file system|\]:\s+at |PRIVATE KEY/i;

let stack: AsyncDisposableStack;
let rig: GatewayRig;
let desk: ReleaseDesk;
let gateway: NspawnGateway;

beforeAll(async () => {
  stack = new AsyncDisposableStack();
  rig = stack.use(await GatewayRig.open());
  desk = stack.use(await ReleaseDesk.open(rig));
});
afterAll(async () => {
  await stack.disposeAsync();
});
beforeEach(async () => {
  gateway = await rig.gateway();
});
afterEach(async () => {
  const said = gateway.console.lines.filter((line) => /thing-agent|trial-guard|agent\[\d+\]/.test(line));
  const identity = await readFile(join(gateway.state, 'identity.json'), 'utf8');
  await gateway[Symbol.asyncDispose]();
  expectQuiet(said, identity);
});

/** Of all its boots, what the journal of systemd said: it goes to the console, too. */
function expectQuiet(said: readonly string[], identity: string): void {
  const { apiKey } = JSON.parse(identity) as { apiKey: string };
  expect(said.length).toBeGreaterThan(5);
  expect(said.filter((line) => line.includes(apiKey) || NEVER_LOGGED.test(line))).toEqual([]);
}

async function technician(...words: readonly string[]): Promise<Finished> {
  return gateway.exec(['agent', ...words]);
}

async function securityEvents(): Promise<readonly { readonly id: string; readonly detail: string }[]> {
  const { stdout } = await technician('log', '--security', '--json');
  return (JSON.parse(stdout) as { events: { id: string; detail: string }[] }).events;
}

async function powerCut(): Promise<void> {
  await gateway.powerOff();
  gateway.powerOn();
  await gateway.console.until(/the agent is up/);
}

async function mainPid(): Promise<string> {
  return gateway.tell('systemctl', 'show', '--value', '--property', 'MainPID', 'thing-agent.service');
}

async function keysOfDoctor(): Promise<string> {
  const { stdout } = await technician('doctor');
  return /ok +trusted keys +(.*)/.exec(stdout)?.[1] ?? stdout;
}

const revokesFirst = (): readonly string[] => [
  '--keys',
  desk.file('next.pem'),
  '--revoke-keys',
  desk.file('first.pem'),
];

test('a list takes effect though a person holds updates, and outlives a power cut: what its revoked key signed is refused, and not a byte of it written', async () => {
  expect(await technician('hold', '--reason', 'the line is being repaired')).toMatchObject({ exitCode: 0 });
  await rig.offerArtifact('trust-1', await desk.list(1, 'first', ...revokesFirst()));
  expect(await technician('--update-now')).toMatchObject({
    exitCode: 0,
    stdout: matching(/list 1 is in effect: \+next\.pem, 1 key revoked/),
  });
  expect(rig.currentVersion).toBe('trust-1');
  expect(await technician('status')).toMatchObject({
    stdout: matching(/Keys +list 1 .*\n[^]*Now +the list .*trust-1 is in effect/),
  });
  const told = ['activated', 'trust-list-taken', 'keys-changed'];
  expect((await securityEvents()).map(({ id }) => id)).toEqual(told);

  await powerCut();
  const { first, next } = desk.keys;
  expect(await keysOfDoctor()).toContain(
    `release.pem ${first.trusted.fingerprint}, revoked, next.pem ${next.trusted.fingerprint}; list 1 of keys`,
  );
  expect(await technician('status')).toMatchObject({
    stdout: matching(/Held: nothing is installed until agent resume/),
  });
  expect(await technician('resume')).toMatchObject({ exitCode: 0 });
  const before = await gateway.tell('sha256sum', '/dev/slot-b');
  await rig.offerArtifact('v1', await desk.release('v1', 'first'));
  expect(await technician('--update-now')).toMatchObject({ exitCode: 77, stderr: matching(/\(key-revoked\)/) });
  const refused = (await securityEvents()).slice(told.length);
  expect(refused).toMatchObject([{ id: 'key-refused', detail: matching(new RegExp(first.trusted.fingerprint)) }]);
  expect(await gateway.tell('sha256sum', '/dev/slot-b')).toBe(before);
  expect(gateway.boots).toEqual(['A', 'A']);

  await rig.offerArtifact('trust-2', await desk.list(2, 'next', '--revoke-keys', desk.file('next.pem')));
  expect(await technician('--update-now')).toMatchObject({ exitCode: 0 });
  expect(await technician('status', '--exit-code')).toMatchObject({
    exitCode: 2,
    stdout: matching(/State +Broken: no trusted key can be used, so nothing can be installed/),
  });
});

test('a list that the service named while the gateway was off takes effect at its first look; the release of the new key brings it along into the other slot, and all that is known of trust is of root alone', async () => {
  expect(await technician('hold')).toMatchObject({ exitCode: 0 });
  await gateway.powerOff();
  await rig.offerArtifact('trust-1', await desk.list(1, 'first', ...revokesFirst()));
  gateway.powerOn();
  await gateway.console.until(/a list of keys and revocations took effect/);
  expect(await technician('resume')).toMatchObject({ exitCode: 0 });

  await rig.offerArtifact('v1', await desk.release('v1', 'next', '--provides', 'security_version:2'));
  expect(await technician('--update-now')).toMatchObject({ exitCode: 0, stdout: matching(/reboots into it now/) });
  await gateway.console.until(/v1 is installed/);
  expect(gateway.boots).toEqual(['A', 'A', 'B']);
  const { first, next } = desk.keys;
  expect(await keysOfDoctor()).toContain(`release.pem ${first.trusted.fingerprint}, revoked`);
  expect(await technician('status', '--json')).toMatchObject({
    stdout: expect.stringContaining(`"signedBy":"${next.trusted.fingerprint}"`) as string,
  });
  await rig.offerArtifact('v2', await desk.release('v2', 'first', '--provides', 'security_version:3'));
  expect(await technician('--update-now')).toMatchObject({ exitCode: 77, stderr: matching(/\(key-revoked\)/) });

  const files = ['floors.json', 'trust.json', 'trust-copy.json', 'security.json', 'identity.json', 'journal.json'];
  const said = await gateway.tell('sh', '-c', `cd /var/lib/thing-agent && stat -c '%a %U %n' ${files.join(' ')}`);
  expect(said.split('\n')).toEqual(files.map((file) => `600 root ${file}`));
});

test('a release that a list revokes between its staging and a reboot by others is left again, and the service is told', async () => {
  const release = await desk.release('v1', 'first');
  const list = await desk.list(1, 'first', '--revoke-releases', release);
  await rig.offerArtifact('v1', release);
  expect(await technician('--update-now', '--no-reboot')).toMatchObject({ exitCode: 0 });
  await rig.offerArtifact('trust-1', list);
  await gateway.exec(['systemctl', 'reboot'], 'root');
  await gateway.console.until(/the bootloader chose slot B/);
  await gateway.console.until(/the bootloader chose slot A/);
  await gateway.console.until(/list 1 of keys and revocations is in effect/);
  expect(gateway.boots).toEqual(['A', 'B', 'A']);
  expect(rig.reports).toContainEqual(
    expect.objectContaining({ version: 'v1', outcome: 'rolled-back', code: 'trust-withdrawn' }),
  );
  expect((await securityEvents()).map(({ id }) => id)).toEqual(['activated', 'trust-list-taken']);
});

test('sockets that somebody removed are there again within a minute, of the same daemon', async () => {
  const pid = await mainPid();
  await gateway.tell('sh', '-c', 'rm /run/thing-agent/*.sock');
  for (let socket = 0; socket < 3; socket += 1) await gateway.console.until(/the control socket was gone/);
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
    stderr: matching(/is not for everyone in the group \(control-not-permitted\)/),
  };
  for (const word of ['hold', 'reboot', 'rollback']) {
    expect(await gateway.exec(['agent', word], 'reader')).toMatchObject(refused);
  }
  expect(await gateway.exec(['agent', 'log', '--security'], 'reader')).toMatchObject(refused);
  const denied = (await securityEvents()).filter(({ id }) => id === 'access-denied');
  expect(denied.map(({ detail }) => detail)).toEqual(
    ['hold', 'reboot', 'rollback', 'securityLog'].map((operation) => `members asked for ${operation}`),
  );
  expect(gateway.boots).toEqual(['A']);
  expect(await technician('status')).toMatchObject({ stdout: matching(/All is well/) });

  expect(await technician('hold')).toMatchObject({ exitCode: 0 });
  expect(await technician('reboot')).toMatchObject({ exitCode: 0 });
  await gateway.console.until(/the agent is up/);
  expect(gateway.boots).toEqual(['A', 'A']);
  expect(await technician('status')).toMatchObject({ stdout: matching(/Held/) });
});
