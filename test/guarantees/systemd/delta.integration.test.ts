import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { slotDevices } from '../../fakes/machine/booting/nspawn-gateway.ts';
import type { NspawnGateway } from '../../fakes/machine/booting/nspawn-gateway.ts';
import { testInFull } from '../../full-run.ts';
import { blockedIn } from '../../unit-and-integration/update/version-entries.ts';
import { FACTORY, GatewayRig } from './gateway-rig.ts';
import { ReleaseDesk } from './release-desk.ts';

/** Deltas on a gateway that really boots: what they are rebuilt from is the device that its root is mounted from. */
const APP_VERSION = '/etc/app-version';
const VERSIONS = [FACTORY, 'v1', 'v2', 'v3'] as const;
const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

let stack: AsyncDisposableStack;
let rig: GatewayRig;
let desk: ReleaseDesk;
let gateway: NspawnGateway;
const images = new Map<string, string>();

beforeAll(async () => {
  stack = new AsyncDisposableStack();
  rig = stack.use(await GatewayRig.open());
  desk = stack.use(await ReleaseDesk.open(rig));
  for (const version of VERSIONS) images.set(version, await rig.images.image({ [APP_VERSION]: version }));
  gateway = stack.use(await rig.gateway({ image: imageOf(FACTORY) }));
});
afterAll(async () => {
  await stack.disposeAsync();
});

function imageOf(version: string): string {
  return images.get(version) ?? '';
}

async function offerDelta(from: string, to: string): Promise<void> {
  await rig.offerArtifact(to, await desk.delta(to, imageOf(from), imageOf(to)));
}

async function digestOf(file: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(file)) hash.update(chunk as Buffer);
  return hash.digest('hex');
}

test('rebuilds a delta from the mounted root and boots it, and the next delta from that result', async () => {
  for (const [from, to, slot] of [
    [FACTORY, 'v1', 'B'],
    ['v1', 'v2', 'A'],
  ] as const) {
    await offerDelta(from, to);
    expect(await gateway.exec(['agent', '--update-now'])).toMatchObject({ exitCode: 0, stdout: matching(/is staged/) });
    await gateway.console.until(new RegExp(`${to} is installed`));
    expect(gateway.booted).toBe(slot);
    expect(await gateway.tell('cat', APP_VERSION)).toBe(to);
    expect(await gateway.tell('sha256sum', slotDevices[slot])).toContain(await digestOf(imageOf(to)));
  }
  expect(gateway.boots).toEqual(['A', 'B', 'A']);
});

testInFull(
  'accepts no delta against a root that was once mounted for writing, and keeps the previous version',
  async () => {
    await gateway.tell('mount', '-o', 'remount,rw', '/');
    await gateway.tell('mount', '-o', 'remount,ro', '/');
    await offerDelta('v2', 'v3');
    const { exitCode, stderr } = await gateway.exec(['agent', '--update-now']);
    expect([exitCode, stderr]).toEqual([77, matching(/delta-base-mismatch/)]);
    expect(rig.reports.at(-1)).toMatchObject({ version: 'v3', outcome: 'refused', code: 'delta-base-mismatch' });
    expect(await gateway.tell('agent', 'status')).toMatch(/v1 in slot B; to roll back to it: agent rollback/);
    expect(blockedIn(await gateway.updateState())).toEqual([]);
  },
);
