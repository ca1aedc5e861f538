import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { FileGateway } from '../../../stand-ins/machine/file-gateway.ts';
import type { FileGatewayOptions, Finished } from '../../../stand-ins/machine/file-gateway.ts';
import { tool } from '../../../stand-ins/machine/tool.ts';
import { bufferContent } from '../../../stand-ins/service/firmware-content.ts';
import { startStandIn } from '../../../stand-ins/service/stand-in.ts';
import type { StandIn } from '../../../stand-ins/service/stand-in.ts';
import { makeKeyPair } from '../../firmware/artifact/keys.ts';

const keys = makeKeyPair('ecdsa-p256', 'release.pem');
const MIB = 1024 * 1024;
const SLOT_BYTES = 12 * MIB;

/** Most of it stays from version to version; of no size that a page divides. */
const common = randomBytes(5 * MIB + 777);

function rootOf(version: string, own: Uint8Array = Buffer.alloc(3000, version)): Buffer {
  return Buffer.concat([Buffer.from(`healthy root ${version}\n`), own, common]);
}

const images: Readonly<Record<string, Buffer>> = {
  '0': rootOf('0'),
  '1': rootOf('1'),
  '2': rootOf('2'),
  '3': rootOf('3', randomBytes(4 * MIB)),
};

let stack: AsyncDisposableStack;
let folder: string;
let service: StandIn;
let gateway: FileGateway;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  folder = await mkdtemp(join(tmpdir(), 'deltas-'));
  stack.defer(async () => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, 'private.pem'), keys.privatePem);
  for (const [version, image] of Object.entries(images)) await writeFile(join(folder, `${version}.img`), image);
  service = stack.use(await startStandIn({ versions: [{ id: 'v0' }], targetVersionId: 'v0' }));
  gateway = stack.use(await FileGateway.create(options()));
});
afterEach(async () => {
  await stack.disposeAsync();
});

function options(): FileGatewayOptions {
  return {
    serviceUrl: service.url,
    image: rootOf('0'),
    slotBytes: SLOT_BYTES,
    trustedKey: keys.publicPem,
    updateToml: 'follow = "target"',
    healthService: false,
  };
}

const naming = (name: string) => ['--device-type', 'demo-gateway', '--key', join(folder, 'private.pem'), name];

/** As a release machine makes it. */
async function delta(from: string, to: string): Promise<Buffer> {
  const output = join(folder, `${from}-${to}.mender`);
  const [base, result] = [join(folder, `${from}.img`), join(folder, `${to}.img`)];
  const made = await gateway.run('artifact', 'delta', base, result, ...naming('--name'), to, '--output', output);
  expect(made).toMatchObject({ exitCode: 0 });
  await tool(['mender-artifact', 'validate', output, '-k', join(gateway.directory, 'release.pem')]);
  return readFile(output);
}

async function whole(version: string): Promise<Buffer> {
  const output = join(folder, `${version}.mender`);
  const contents = ['--compression', 'none', '--file', join(folder, `${version}.img`), '--output-path', output];
  await tool(['mender-artifact', 'write', 'rootfs-image', ...naming('--artifact-name'), version, ...contents]);
  return readFile(output);
}

/** The service wants the gateway to run it; under an id of its own, as a release has. */
function offer(version: string, id: string, artifact: Buffer): void {
  service.world.addVersion({ id, name: version, firmware: bufferContent(artifact) });
  service.world.targetVersionId = id;
}

async function settle(): Promise<Finished> {
  const done = await gateway.run('--update-now');
  if (!gateway.rebootRequested) return done;
  gateway.boot();
  return gateway.run('--update-now');
}

async function runs(version: string): Promise<boolean> {
  const image = images[version] ?? Buffer.alloc(0);
  return image.equals(await gateway.imageOf(gateway.booted, image.byteLength));
}

test('a gateway is updated by deltas, one on the other, of which it fetches little, also from what the factory made', async () => {
  for (const [from, to] of [
    ['0', '1'],
    ['1', '2'],
  ] as const) {
    const artifact = await delta(from, to);
    expect(artifact.byteLength).toBeLessThan(100_000);
    offer(to, `to-${to}`, artifact);
    expect(await settle()).toMatchObject({ exitCode: 0 });
    expect(await runs(to)).toBe(true);
    expect(service.world.things[0]?.currentVersionId).toBe(`to-${to}`);
    const fromBase = JSON.stringify(await gateway.json('history')).match(/"fromBaseBytes":(\d+)/)?.[1];
    expect(Number(fromBase)).toBeGreaterThan(4 * MIB);
  }
  expect(await gateway.run('rollback')).toMatchObject({ exitCode: 0 });
  gateway.boot();
  await gateway.run('--update-now');
  expect(await runs('1')).toBe(true);
});

test('a delta for another image is refused before its payload is fetched, and reported; the whole one installs then', async () => {
  const artifact = await delta('1', '3');
  expect(artifact.byteLength).toBeGreaterThan(4 * MIB);
  const file = join(folder, '1-3.mender');
  const seen = await gateway.run('info', file);
  expect(seen.stdout).toContain('a delta from sha256:');
  expect(seen.stdout).toContain('(delta-base)');
  offer('3', 'delta-3', artifact);
  const refused = await settle();
  expect(refused).toMatchObject({ exitCode: 77 });
  expect(refused.stderr).toContain('delta-base');
  expect((await gateway.imageOf('B', 4)).toString('latin1')).toBe('\0\0\0\0');
  expect(service.world.things[0]?.properties.get('update_outcome')).toMatchObject({
    outcome: 'refused',
    code: 'delta-base',
  });
  const fetched = JSON.stringify(await gateway.json('history')).match(/"fetchedBytes":(\d+)/)?.[1];
  expect(Number(fetched)).toBeGreaterThan(0);
  expect(Number(fetched)).toBeLessThan(MIB);
  const journal: unknown = JSON.parse(await readFile(join(gateway.directory, 'state/journal.json'), 'utf8'));
  expect(JSON.stringify(journal)).toContain('"quarantine":[]');
  offer('3', 'whole-3', await whole('3'));
  expect(await settle()).toMatchObject({ exitCode: 0 });
  expect(await runs('3')).toBe(true);
  expect(service.world.things[0]?.currentVersionId).toBe('whole-3');
});

test('where a delta does not fit, the next look installs the whole release that the service lists beside it', async () => {
  service.world.addVersion({ id: 'whole-3', name: '3', firmware: bufferContent(await whole('3')) });
  offer('3', 'delta-3', await delta('1', '3'));
  service.world.setUpdates('v0', ['delta-3', 'whole-3']);
  expect(await settle()).toMatchObject({ exitCode: 77 });
  expect(service.world.things[0]?.properties.get('update_outcome')).toMatchObject({ code: 'delta-base' });
  expect(await settle()).toMatchObject({ exitCode: 0 });
  expect(await runs('3')).toBe(true);
  // The service still names the delta, which is known to be what runs: nothing is installed for it, and the service learns so.
  expect(service.world.things[0]?.currentVersionId).toBe('delta-3');
  expect(await settle()).toMatchObject({ exitCode: 0 });
  expect(gateway.rebootRequested).toBe(false);
  expect(service.world.things[0]?.properties.get('update_outcome')).toMatchObject({
    outcome: 'installed',
    version: '3',
  });
});

test('where a property says which versions are wanted whole, the service answers with the whole one under the same id', async () => {
  const extraToml = '[report]\noutcome = "update_outcome"\nwhole_image = "wanted_whole"\n';
  await gateway.configure({ ...options(), reports: false, extraToml });
  offer('3', 'three', await delta('1', '3'));
  expect(await settle()).toMatchObject({ exitCode: 77 });
  const properties = service.world.things[0]?.properties;
  expect(properties?.get('wanted_whole')).toEqual({ versions: ['three'] });
  offer('3', 'three', await whole('3'));
  expect(await settle()).toMatchObject({ exitCode: 0 });
  expect(await runs('3')).toBe(true);
  expect(properties?.get('wanted_whole')).toEqual({ versions: [] });
});

test('an image that was changed since it was verified makes no delta of it boot', async () => {
  offer('1', 'whole-1', await whole('1'));
  await settle();
  expect(await runs('1')).toBe(true);
  offer('2', 'delta-2', await delta('1', '2'));
  const changed = Buffer.from(images['1'] ?? '');
  changed[3 * MIB] = (changed[3 * MIB] ?? 0) ^ 1;
  await writeFile(gateway.slots[gateway.booted], changed);
  const refused = await settle();
  expect(refused).toMatchObject({ exitCode: 77 });
  expect(refused.stderr).toContain('delta-base');
  expect(gateway.rebootRequested).toBe(false);
  const { booted } = gateway;
  expect(gateway.boot()).toBe(booted);
});
