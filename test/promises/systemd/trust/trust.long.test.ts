import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';

import type { NspawnGateway } from '../../../stand-ins/machine/booting/nspawn-gateway.ts';
import { expectQuiet, TrustRig } from './trust-rig.ts';

/** Another way of a list than those of trust.integration. */
const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

let trust: TrustRig;
let gateway: NspawnGateway;

beforeAll(async () => {
  trust = await TrustRig.open();
});
afterAll(async () => {
  await trust[Symbol.asyncDispose]();
});

beforeEach(async () => {
  gateway = await trust.newGateway();
});
afterEach(async () => {
  await expectQuiet(trust);
});

test('a list that the service named while the gateway was off takes effect at its first look; the release of the new key brings it along into the other slot, and all that is known of trust is of root alone', async () => {
  expect(await trust.technician('hold')).toMatchObject({ exitCode: 0 });
  await gateway.powerOff();
  await trust.rig.offerArtifact('trust-1', await trust.desk.list(1, 'first', ...trust.revokesFirst));
  gateway.powerOn();
  await gateway.console.until(/a list of keys and revocations took effect/);
  expect(await trust.technician('resume')).toMatchObject({ exitCode: 0 });

  await trust.rig.offerArtifact('v1', await trust.desk.release('v1', 'next', '--provides', 'security_version:2'));
  expect(await trust.technician('--update-now')).toMatchObject({
    exitCode: 0,
    stdout: matching(/reboots into it now/),
  });
  await gateway.console.until(/v1 is installed/);
  expect(gateway.boots).toEqual(['A', 'A', 'B']);
  const { first, next } = trust.desk.keys;
  expect(await trust.keysOfDoctor()).toContain(`release.pem ${first.trusted.fingerprint}, revoked`);
  expect(await trust.technician('status', '--json')).toMatchObject({
    stdout: expect.stringContaining(`"signedBy":"${next.trusted.fingerprint}"`) as string,
  });
  await trust.rig.offerArtifact('v2', await trust.desk.release('v2', 'first', '--provides', 'security_version:3'));
  expect(await trust.technician('--update-now')).toMatchObject({ exitCode: 77, stderr: matching(/\(key-revoked\)/) });

  const files = ['floors.json', 'trust.json', 'trust-copy.json', 'security.json', 'identity.json', 'journal.json'];
  const said = await gateway.tell('sh', '-c', `cd /var/lib/thing-agent && stat -c '%a %U %n' ${files.join(' ')}`);
  expect(said.split('\n')).toEqual(files.map((file) => `600 root ${file}`));
});
