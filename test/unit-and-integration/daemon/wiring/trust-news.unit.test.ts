import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, expect, test } from 'vitest';

import type { OperationOutcome } from '../../../../src/control/events.ts';
import { withAppliedLists, Trust } from '../../../../src/daemon/wiring/trust.ts';
import { stoppedClock } from '../../cli/fake-context.ts';
import { makeKeyPair } from '../../firmware/artifact/keys.ts';
import { fingerprint, listBytes } from '../../firmware/trust/lists.ts';

const keys = [makeKeyPair('ecdsa-p256'), makeKeyPair('ecdsa-p256')].map(({ publicPem }, n) => ({
  name: `${n}.pem`,
  pem: publicPem,
}));
const installed = { kind: 'installed', version: 'trust' } as const;

let state: string;

beforeEach(() => {
  state = mkdtempSync(join(tmpdir(), 'trust-news-'));
});
afterEach(() => rmSync(state, { recursive: true }));

function trustHere(): Trust {
  const trust = { keys: [], allowUnsigned: false, nameCheck: 'strict', downgrade: 'allow' } as const;
  const config = { trust, paths: { state, run: state } };
  return new Trust({ config, clock: stoppedClock, probe: async () => 'unknown' });
}

async function take(trust: Trust, list: Buffer): Promise<OperationOutcome> {
  return withAppliedLists(trust, async () => {
    await trust.takeList(list, fingerprint('a'), []);
    return installed;
  });
}

test('a result shows the changes of a list from the one before it', async () => {
  const trust = trustHere();
  const first = listBytes({ keys: keys.slice(0, 1), revoked: { keys: [], releases: [fingerprint('b')] } });
  expect(await take(trust, first)).toEqual({
    ...installed,
    trustList: { number: 1, keys: ['0.pem'], revokedKeys: 0, unknownKeys: 0, revokedReleases: 1 },
  });
  const revoked = { keys: [fingerprint('c')], releases: [fingerprint('b')] };
  expect(await take(trust, listBytes({ number: 2, keys, revoked }))).toEqual({
    ...installed,
    trustList: { number: 2, keys: ['1.pem'], revokedKeys: 1, unknownKeys: 1, revokedReleases: 0 },
  });
});

// Regression: "it changes nothing" of a list that took effect during a trial, and was acknowledged after it.
test('a result shows the changes of a list that was applied once more in between', async () => {
  const trust = trustHere();
  const list = listBytes({ keys });
  const outcome = await withAppliedLists(trust, async () => {
    await trust.takeList(list, fingerprint('a'), []);
    await trust.takeList(list, fingerprint('a'), []);
    return installed;
  });
  expect(outcome).toMatchObject({ trustList: { number: 1, keys: ['0.pem', '1.pem'] } });
  expect(await take(trust, list)).toMatchObject({ trustList: { number: 1, keys: [] } });
});

test('an outcome counts the revoked keys that the gateway did not know', async () => {
  const trust = trustHere();
  const { trusted } = makeKeyPair('ecdsa-p256');
  const list = listBytes({ revoked: { keys: [trusted.fingerprint, fingerprint('c')], releases: [] } });
  const outcome = await withAppliedLists(trust, async () => {
    await trust.takeList(list, fingerprint('a'), [trusted]);
    return installed;
  });
  expect(outcome).toMatchObject({ trustList: { revokedKeys: 2, unknownKeys: 1 } });
});

test('a result without a list shows none, after any earlier list', async () => {
  const trust = trustHere();
  await trust.takeList(listBytes(), fingerprint('a'), []);
  expect(await withAppliedLists(trust, async () => installed)).toEqual(installed);
});

test('if the previous list is unknown, the whole list is new', async () => {
  writeFileSync(join(state, 'trust.json'), '{');
  expect(await take(trustHere(), listBytes({ keys }))).toMatchObject({ trustList: { keys: ['0.pem', '1.pem'] } });
});
