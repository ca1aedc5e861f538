import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, expect, test } from 'vitest';

import type { FileReport } from '../../../src/control/file-report.ts';
import { inspectFile } from '../../../src/daemon/inspect-file.ts';
import type { TrustListFile } from '../../../src/firmware/trust/trust-list.ts';
import { openNamedFile } from '../../../src/system/files/opened-file.ts';
import { FileGateway } from '../../fakes/machine/file-gateway.ts';
import type { FileGatewayOptions } from '../../fakes/machine/file-gateway.ts';
import { startStandIn } from '../../fakes/service/stand-in.ts';
import { untilTestEnds } from '../../until-test-ends.ts';
import { buildArtifact } from '../firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../firmware/artifact/keys.ts';
import { listArtifact, listBytes } from '../firmware/trust/lists.ts';

const keys = makeKeyPair('ecdsa-p256', 'release.pem');
const stranger = makeKeyPair('ecdsa-p256', 'stranger.pem');
const imageBytes = 100_000;

let gateway: FileGateway;
let options: FileGatewayOptions;
let file: string;

beforeEach(async () => {
  const service = untilTestEnds(await startStandIn({ versions: [{ id: 'v0' }] }));
  const image = Buffer.from('healthy 0\n');
  options = { serviceUrl: service.url, image, slotBytes: 150_000, trustedKey: keys.publicPem };
  gateway = untilTestEnds(await FileGateway.create(options));
  file = join(gateway.directory, 'release.mender');
});

interface Release {
  readonly devices?: string[];
  readonly key?: typeof keys.privateKey | undefined;
  readonly sizeBytes?: number;
  readonly says?: string;
}

async function release({
  devices = ['demo-gateway'],
  key = keys.privateKey,
  sizeBytes = imageBytes,
  says = 'healthy 1',
}: Release = {}) {
  const files = [{ name: 'rootfs.ext4', content: Buffer.alloc(sizeBytes, `${says}\n`) }];
  await writeFile(file, await buildArtifact({ name: '1.0.0', devices, files, key }));
}

async function info(): Promise<FileReport> {
  return (await gateway.json('info', file)) as FileReport;
}

async function obstacles(): Promise<readonly string[]> {
  return (await info()).obstacles.map(({ code }) => code);
}

test('shows type, device types, key, content and compatibility of a file, and changes nothing', async () => {
  await release();
  const [before, slot] = [await readFile(gateway.slots.A), await readFile(gateway.slots.B)];
  const report = await info();
  expect(report).toMatchObject({
    kind: 'artifact',
    name: '1.0.0',
    deviceTypes: ['demo-gateway'],
    signature: 'trusted',
    signedBy: { name: 'release.pem' },
    payloads: [{ fileName: 'rootfs.ext4', target: 'gateway', sizeBytes: imageBytes }],
    isInstalled: false,
    obstacles: [],
  });
  expect(report.signedBy?.fingerprint).toMatch(/^sha256:[0-9a-f]{64}$/);
  expect(report.payloads[0]?.digest).toMatch(/^sha256:/);
  const page = await gateway.run('info', file);
  expect(page).toMatchObject({ exitCode: 0 });
  expect(page.stdout).toMatch(/release\.pem,\s+sha256:[^]*rootfs\.ext4, 97\.7 KiB[^]*It would be installed/);
  expect([await readFile(gateway.slots.A), await readFile(gateway.slots.B)]).toEqual([before, slot]);
  expect(await gateway.json('status')).toMatchObject({ phase: 'idle' });
  expect(await gateway.json('history')).toEqual({ attempts: [], discarded: 0 });
});

test('lists every incompatibility together, with its code and remedy', async () => {
  await release({ devices: ['another-board'], key: stranger.privateKey, sizeBytes: 160_000 });
  const report = await info();
  expect(report).toMatchObject({ signature: 'unknown-key', payloads: [{ sizeBytes: 160_000 }] });
  expect(report.obstacles.map(({ code }) => code)).toEqual([
    'signature-invalid',
    'device-type-mismatch',
    'slot-too-small',
  ]);
  const page = await gateway.run('info', file);
  expect(page.exitCode).toBe(77);
  expect(page.stdout).toMatch(/not be installed[^]*\(signature-invalid\)[^]*add its public key[^]*\(slot-too-small\)/);
  await release({ devices: ['another-board'] });
  expect(await obstacles()).toEqual(['device-type-mismatch']);
  await release();
  await gateway.run('hold', '4h');
  expect(await obstacles()).toEqual(['on-hold']);
});

// Regression: "It would be installed", exit code 0, of board images that the installation then refused.
test('rejects each image that its board would not accept', async () => {
  const configure = async (pump: string, port = '/dev/null'): Promise<void> => {
    const board = 'kind = "mcu"\nreset = "none"\n';
    const meter = `[targets.meter]\n${board}protocol = "smp"\nport = "/dev/zero"\n`;
    const extraToml = `${meter}[targets.pump]\n${board}protocol = "stm32"\nport = "${port}"\n${pump}\n`;
    await gateway.configure({ ...options, extraToml });
  };
  const write = async (...names: readonly ('pump' | 'meter')[]): Promise<void> => {
    const files = names.map((name) => ({ name: `${name}.bin`, content: Buffer.alloc(5_000, 7) }));
    const targets = Object.fromEntries(names.map((name) => [`${name}.bin`, name]));
    const { privateKey: key } = keys;
    await writeFile(file, await buildArtifact({ name: '1.0.0', devices: ['demo-gateway'], files, targets, key }));
  };
  await configure('');
  await write('pump', 'meter');
  expect(await obstacles()).toEqual(['image-address-missing', 'image-wrong-chip']);
  expect(await gateway.run('info', file)).toMatchObject({ exitCode: 77 });
  await write('pump');
  await configure('address = 0x8000000');
  expect(await obstacles()).toEqual([]);
  await configure('address = 0x8000000', '/dev/ttyNONE');
  expect(await obstacles()).toEqual(['port-missing']);
});

// Regression: a running daemon checked the file by its own configuration.
test('is checked by the configuration that is named, also while the daemon uses another one', async () => {
  await release({ key: stranger.privateKey });
  await gateway.startDaemon();
  expect(await obstacles()).toEqual(['signature-invalid']);
  await gateway.configure({ ...options, trustedKey: undefined });
  expect(await obstacles()).toEqual([]);
  expect((await gateway.run('doctor')).stdout).toMatch(/it checks its own\s+configuration/);
});

test('respects the quarantine and the running version', async () => {
  await release({ says: 'unhealthy 1' });
  await gateway.run('install', file);
  expect(await obstacles()).toEqual(['update-in-progress']);
  for (let boots = 0; boots < 2; boots += 1) {
    gateway.boot();
    await gateway.run('--update-now');
  }
  expect(await obstacles()).toEqual(['quarantined']);
  await release();
  await gateway.run('install', file);
  gateway.boot();
  await gateway.run('--update-now');
  expect(await info()).toMatchObject({ isInstalled: true, obstacles: [] });
});

// Regression: "It would be installed" of a list older than the one in effect, and no word about what a list changes.
test('tells the number of a list, what it changes, that it is too old, and that it leaves no key', async () => {
  const list = async (number: number, more: Partial<TrustListFile> = {}): Promise<void> =>
    writeFile(file, await listArtifact(listBytes({ number, ...more }), keys.privateKey, { devices: ['demo-gateway'] }));
  const next = makeKeyPair('ed25519');
  const [old, added] = [keys, next].map(({ trusted }) => trusted.fingerprint.slice('sha256:'.length).slice(0, 10));
  await list(2, { keys: [{ name: 'next', pem: next.publicPem }] });
  expect(await info()).toMatchObject({
    kind: 'trust-list',
    trustList: { number: 2, changes: [`adds next ${added}`] },
    obstacles: [],
  });
  expect((await gateway.run('install', file)).exitCode).toBe(0);
  expect(await info()).toMatchObject({ trustList: { number: 2, changes: [] }, obstacles: [] });
  await list(1);
  expect(await obstacles()).toEqual(['trust-list-old']);
  const revoked = { keys: [keys.trusted.fingerprint], releases: [] };
  await list(3, { revoked });
  expect((await info()).trustList).toEqual({
    number: 3,
    changes: [
      `revokes the key release.pem ${old}`,
      `leaves out next ${added}`,
      expect.stringMatching(/^leaves no trusted key/),
    ],
  });
  const page = await gateway.run('info', file);
  expect(page.stdout).toMatch(/Trust list\s+number 3\n\s+revokes the key release\.pem/);
});

test('tells a damaged file, an image and a file that is not there', async () => {
  await release();
  const bytes = await readFile(file);
  await writeFile(file, bytes.subarray(0, bytes.length - 20_000));
  expect(await info()).toMatchObject({ name: '1.0.0', obstacles: [{ code: 'file-truncated' }] });
  await writeFile(file, Buffer.alloc(5_000, 'image'));
  expect(await info()).toMatchObject({ kind: 'image', obstacles: [{ code: 'image-unsigned' }] });
  expect(await gateway.run('info', '/nowhere/file')).toMatchObject({ exitCode: 64 });
});

test('without a configuration shows only the content of the file', async () => {
  await release();
  await writeFile(gateway.configFile, 'nonsense');
  const report = await info();
  expect(report).toMatchObject({ name: '1.0.0', signature: 'unknown-key', obstacles: [] });
  expect(report.unjudged).toContain('config.toml');
  const page = await gateway.run('info', file);
  expect(page.stdout).toMatch(/Signature +not checked: no configuration names trusted keys\n/);
  expect(page.stdout.replaceAll(/\s+/g, ' ')).toMatch(
    /Result Unknown: .* To check the file, name a configuration with --config FILE\./,
  );
  await using opened = await openNamedFile(file);
  const named = { path: file, file: opened };
  expect(await inspectFile(named, undefined, AbortSignal.timeout(60_000))).toMatchObject({
    deviceTypes: ['demo-gateway'],
    payloads: [{ fileName: 'rootfs.ext4', sizeBytes: imageBytes }],
  });
}, 120_000);
