import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { afterEach, beforeEach, expect, test } from 'vitest';

import type { FileGateway } from '../../../stand-ins/machine/file-gateway.ts';
import type { StandIn } from '../../../stand-ins/service/stand-in.ts';
import { DeltaGateway, MIB } from './deltas-rig.ts';

let rig: DeltaGateway;
let service: StandIn;
let gateway: FileGateway;

beforeEach(async () => {
  rig = await DeltaGateway.create();
  ({ service, gateway } = rig);
});
afterEach(async () => {
  await rig[Symbol.asyncDispose]();
});

test('a delta for another image is refused before its payload is fetched, and reported; the whole one installs then', async () => {
  const artifact = await rig.delta('1', '3');
  expect(artifact.byteLength).toBeGreaterThan(4 * MIB);
  const file = join(rig.folder, '1-3.mender');
  const seen = await gateway.run('info', file);
  expect(seen.stdout).toContain('a delta from sha256:');
  expect(seen.stdout).toContain('(delta-base)');
  rig.offer('3', 'delta-3', artifact);
  const refused = await rig.settle();
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
  rig.offer('3', 'whole-3', await rig.whole('3'));
  expect(await rig.settle()).toMatchObject({ exitCode: 0 });
  expect(await rig.runs('3')).toBe(true);
  expect(service.world.things[0]?.currentVersionId).toBe('whole-3');
});

test('where a property says which versions are wanted whole, the service answers with the whole one under the same id', async () => {
  const extraToml = '[report]\noutcome = "update_outcome"\nwhole_image = "wanted_whole"\n';
  await rig.configure({ reports: false, extraToml });
  rig.offer('3', 'three', await rig.delta('1', '3'));
  expect(await rig.settle()).toMatchObject({ exitCode: 77 });
  const properties = service.world.things[0]?.properties;
  expect(properties?.get('wanted_whole')).toEqual({ versions: ['three'] });
  rig.offer('3', 'three', await rig.whole('3'));
  expect(await rig.settle()).toMatchObject({ exitCode: 0 });
  expect(await rig.runs('3')).toBe(true);
  expect(properties?.get('wanted_whole')).toEqual({ versions: [] });
});
