import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, expect, test } from 'vitest';

import type { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import { bufferContent } from '../../../fakes/service/firmware-content.ts';
import type { StandIn } from '../../../fakes/service/stand-in.ts';
import { testInFull } from '../../../full-run.ts';
import { untilTestEnds } from '../../../until-test-ends.ts';
import { DeltaGateway, images, MIB } from './deltas-rig.ts';

let rig: DeltaGateway;
let service: StandIn;
let gateway: FileGateway;

beforeEach(async () => {
  rig = untilTestEnds(await DeltaGateway.create());
  ({ service, gateway } = rig);
});

test('a gateway is updated by consecutive deltas, with little to download, also from a factory image', async () => {
  for (const [from, to] of [
    ['0', '1'],
    ['1', '2'],
  ] as const) {
    const artifact = await rig.delta(from, to);
    expect(artifact.byteLength).toBeLessThan(100_000);
    rig.offer(to, `to-${to}`, artifact);
    expect(await rig.settle()).toMatchObject({ exitCode: 0 });
    expect(await rig.runs(to)).toBe(true);
    expect(service.world.things[0]?.currentVersionId).toBe(`to-${to}`);
    const fromBase = JSON.stringify(await gateway.json('history')).match(/"deltaBaseBytes":(\d+)/)?.[1];
    expect(Number(fromBase)).toBeGreaterThan(4 * MIB);
  }
  expect(await gateway.run('rollback')).toMatchObject({ exitCode: 0 });
  gateway.boot();
  await gateway.run('--update-now');
  expect(await rig.runs('1')).toBe(true);
});

test('a delta for another image is refused before its payload is fetched, and the next check installs the full release from the service’s list', async () => {
  service.world.addVersion({ id: 'whole-3', name: '3', firmware: bufferContent(await rig.whole('3')) });
  const artifact = await rig.delta('1', '3');
  expect(artifact.byteLength).toBeGreaterThan(4 * MIB);
  rig.offer('3', 'delta-3', artifact);
  service.world.setUpdates('v0', ['delta-3', 'whole-3']);
  const refused = await rig.settle();
  expect(refused).toMatchObject({ exitCode: 77 });
  expect(refused.stderr).toContain('delta-base-mismatch');
  expect((await gateway.imageOf('B', 4)).toString('latin1')).toBe('\0\0\0\0');
  const fetched = JSON.stringify(await gateway.json('history')).match(/"fetchedBytes":(\d+)/)?.[1];
  expect(Number(fetched)).toBeGreaterThan(0);
  expect(Number(fetched)).toBeLessThan(MIB);
  expect(await readFile(join(gateway.directory, 'state/journal.json'), 'utf8')).not.toContain('"bad":');
  expect(service.world.things[0]?.properties.get('update_outcome')).toMatchObject({
    outcome: 'refused',
    code: 'delta-base-mismatch',
  });
  expect(await rig.settle()).toMatchObject({ exitCode: 0 });
  expect(await rig.runs('3')).toBe(true);
  // The service still offers the delta, which is known to be the running version: nothing is installed, and the service
  // is notified.
  expect(service.world.things[0]?.currentVersionId).toBe('delta-3');
  expect(await rig.settle()).toMatchObject({ exitCode: 0 });
  expect(gateway.rebootRequested).toBe(false);
  expect(service.world.things[0]?.properties.get('update_outcome')).toMatchObject({
    outcome: 'installed',
    version: '3',
  });
});

test('an image that was changed since it was verified makes no delta of it boot', async () => {
  rig.offer('1', 'whole-1', await rig.whole('1'));
  await rig.settle();
  expect(await rig.runs('1')).toBe(true);
  rig.offer('2', 'delta-2', await rig.delta('1', '2'));
  const changed = Buffer.from(images['1'] ?? '');
  changed[3 * MIB] = (changed[3 * MIB] ?? 0) ^ 1;
  await writeFile(gateway.slots[gateway.booted], changed);
  const refused = await rig.settle();
  expect(refused).toMatchObject({ exitCode: 77 });
  expect(refused.stderr).toContain('delta-base-mismatch');
  expect(gateway.rebootRequested).toBe(false);
  const { booted } = gateway;
  expect(gateway.boot()).toBe(booted);
});

testInFull(
  'a delta for another image is refused before its payload is fetched, and reported; the whole one installs then',
  async () => {
    const artifact = await rig.delta('1', '3');
    expect(artifact.byteLength).toBeGreaterThan(4 * MIB);
    const file = join(rig.folder, '1-3.mender');
    const seen = await gateway.run('info', file);
    expect(seen.stdout).toContain('a delta from sha256:');
    expect(seen.stdout).toContain('(delta-base-mismatch)');
    rig.offer('3', 'delta-3', artifact);
    const refused = await rig.settle();
    expect(refused).toMatchObject({ exitCode: 77 });
    expect(refused.stderr).toContain('delta-base-mismatch');
    expect((await gateway.imageOf('B', 4)).toString('latin1')).toBe('\0\0\0\0');
    expect(service.world.things[0]?.properties.get('update_outcome')).toMatchObject({
      outcome: 'refused',
      code: 'delta-base-mismatch',
    });
    const fetched = JSON.stringify(await gateway.json('history')).match(/"fetchedBytes":(\d+)/)?.[1];
    expect(Number(fetched)).toBeGreaterThan(0);
    expect(Number(fetched)).toBeLessThan(MIB);
    const journal: unknown = JSON.parse(await readFile(join(gateway.directory, 'state/journal.json'), 'utf8'));
    expect(JSON.stringify(journal)).not.toContain('"bad":');
    rig.offer('3', 'whole-3', await rig.whole('3'));
    expect(await rig.settle()).toMatchObject({ exitCode: 0 });
    expect(await rig.runs('3')).toBe(true);
    expect(service.world.things[0]?.currentVersionId).toBe('whole-3');
  },
);

testInFull(
  'with a property for versions that are wanted as full images, the service sends the full image under the same id',
  async () => {
    const extraToml = '[report]\noutcome = "update_outcome"\nfull_image = "wanted_whole"\n';
    await rig.configure({ reports: false, extraToml });
    rig.offer('3', 'three', await rig.delta('1', '3'));
    expect(await rig.settle()).toMatchObject({ exitCode: 77 });
    const properties = service.world.things[0]?.properties;
    expect(properties?.get('wanted_whole')).toEqual({ versions: ['three'] });
    rig.offer('3', 'three', await rig.whole('3'));
    expect(await rig.settle()).toMatchObject({ exitCode: 0 });
    expect(await rig.runs('3')).toBe(true);
    expect(properties?.get('wanted_whole')).toEqual({ versions: [] });
  },
);
