import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { beforeEach, expect, test } from 'vitest';

import { Trust } from '../../../../src/daemon/wiring/trust.ts';
import { folderUntilTestEnds } from '../../../until-test-ends.ts';
import { stoppedClock } from '../../cli/fake-context.ts';
import { makeKeyPair } from '../../firmware/artifact/keys.ts';
import { fingerprint, listBytes } from '../../firmware/trust/lists.ts';

const keys = [makeKeyPair('ecdsa-p256'), makeKeyPair('ecdsa-p256')].map(({ publicPem }, n) => ({
  name: `${n}.pem`,
  pem: publicPem,
}));

let state: string;

beforeEach(() => {
  state = folderUntilTestEnds();
});

function trustHere(): Trust {
  const trust = { keys: [], allowUnsigned: false, nameCheck: 'strict', downgrade: 'allow' } as const;
  const config = { trust, paths: { state, run: state } };
  return new Trust({ config, clock: stoppedClock, probe: async () => 'unknown' });
}

async function take(trust: Trust, list: Buffer): Promise<unknown> {
  await trust.takeList(list, { artifact: fingerprint('a') }, []);
  return trust.collectNews();
}

test('collectNews returns the changes of a list from the one before it', async () => {
  const trust = trustHere();
  const first = listBytes({ keys: keys.slice(0, 1), revoked: { keys: [], releases: [fingerprint('b')] } });
  expect(await take(trust, first)).toEqual({
    number: 1,
    keys: ['0.pem'],
    revokedKeys: 0,
    unknownKeys: 0,
    revokedReleases: 1,
  });
  const revoked = { keys: [fingerprint('c')], releases: [fingerprint('b')] };
  expect(await take(trust, listBytes({ number: 2, keys, revoked }))).toEqual({
    number: 2,
    keys: ['1.pem'],
    revokedKeys: 1,
    unknownKeys: 1,
    revokedReleases: 0,
  });
});

// Regression: "it changes nothing" of a list that took effect during a trial, and was acknowledged after it.
test('collectNews returns the changes of a list that was applied once more in between', async () => {
  const trust = trustHere();
  const list = listBytes({ keys });
  await trust.takeList(list, { artifact: fingerprint('a') }, []);
  expect(await take(trust, list)).toMatchObject({ number: 1, keys: ['0.pem', '1.pem'] });
  expect(await take(trust, list)).toMatchObject({ number: 1, keys: [] });
});

test('collectNews counts the revoked keys that the gateway did not know', async () => {
  const trust = trustHere();
  const { trusted } = makeKeyPair('ecdsa-p256');
  const list = listBytes({ revoked: { keys: [trusted.fingerprint, fingerprint('c')], releases: [] } });
  await trust.takeList(list, { artifact: fingerprint('a') }, [trusted]);
  expect(trust.collectNews()).toMatchObject({ revokedKeys: 2, unknownKeys: 1 });
});

test('if the previous list is unknown, the whole list is new', async () => {
  writeFileSync(join(state, 'trust.json'), '{');
  expect(await take(trustHere(), listBytes({ keys }))).toMatchObject({ keys: ['0.pem', '1.pem'] });
});
