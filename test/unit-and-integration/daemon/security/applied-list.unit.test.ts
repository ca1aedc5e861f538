import { writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, describe, expect, test } from 'vitest';

import { describeAppliedList } from '../../../../src/daemon/security/applied-list.ts';
import { recordTrustChanges } from '../../../../src/daemon/security/record-events.ts';
import { SecurityLog } from '../../../../src/daemon/security/security-log.ts';
import { stagingWithKeys } from '../../../../src/daemon/wiring/engine.ts';
import { Trust } from '../../../../src/daemon/wiring/trust.ts';
import type { TrustedKey } from '../../../../src/firmware/artifact/trust.ts';
import type { TrustListFile } from '../../../../src/firmware/trust/trust-list.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { MemoryService } from '../../../fakes/machine/memory/memory-service.ts';
import { folderUntilTestEnds } from '../../../until-test-ends.ts';
import { stoppedClock } from '../../cli/fake-context.ts';
import { makeKeyPair } from '../../firmware/artifact/keys.ts';
import { stageInto } from '../../firmware/stage-into.ts';
import { fingerprint, listArtifact, listBytes } from '../../firmware/trust/lists.ts';

const [old, next] = [makeKeyPair('ecdsa-p256'), makeKeyPair('ed25519')];
const { signal } = new AbortController();
const oldShort = old.trusted.fingerprint.slice('sha256:'.length, 'sha256:'.length + 10);
const nextShort = next.trusted.fingerprint.slice('sha256:'.length, 'sha256:'.length + 10);

let folder: string;

beforeEach(() => {
  folder = folderUntilTestEnds();
  writeFileSync(join(folder, 'release.pem'), old.publicPem);
});

interface Gateway {
  readonly take: (more: Partial<TrustListFile>) => Promise<void>;
  /** Each with its identifier. */
  readonly events: () => Promise<readonly string[]>;
}

/** Trusts `release.pem`, and takes a list as its updates do. */
async function start(): Promise<Gateway> {
  const trustConfig = {
    keys: [{ file: join(folder, 'release.pem') }],
    allowUnsigned: false,
    nameCheck: 'strict',
    downgrade: 'allow',
  } as const;
  const config = { trust: trustConfig, paths: { state: folder, run: folder } };
  const trust = new Trust({ config, clock: stoppedClock, probe: async () => 'unknown' });
  const log = new SecurityLog({ stateDirectory: folder, clock: stoppedClock, log: silentLog });
  await recordTrustChanges(log, { path: 'config.toml', digest: 'sha256:1' }, trust, signal);
  const settings = {
    update: { encoding: 'auto' },
    device: { deviceType: undefined },
    trust: { allowUnsigned: false },
  } as const;
  const open = stagingWithKeys(settings, trust, log);
  const take = async (more: Partial<TrustListFile>): Promise<void> => {
    const artifact = await listArtifact(listBytes(more), old.privateKey);
    const text = Buffer.from(JSON.stringify(artifact.toString('base64')));
    const source = new MemoryService(new Map([['list', text]]), 'list').firmware('list');
    const openPayload = async (): Promise<never> => Promise.reject(new Error('a list has no payload'));
    await stageInto(open, { source, openPayload, onProgress: () => {} }, signal);
  };
  const events = async (): Promise<readonly string[]> =>
    (await log.report()).events.map(({ id, detail }) => `${id}: ${detail}`);
  return { take, events };
}

const nextKey = { name: 'next', pem: next.publicPem };

describe('an applied trust list is recorded', () => {
  // Regression: no more than the digest of its artifact; that other keys are trusted, at the next start of the daemon.
  test('with its number, its signer, its changes, and other keys together', async () => {
    const { take, events } = await start();
    await take({ number: 2, keys: [nextKey], revoked: { keys: [], releases: [fingerprint('b')] } });
    expect(await events()).toEqual([
      `trust-list-applied: list 2, signed by release.pem ${oldShort}: revokes the release bbbbbbbbbb; adds next ${nextShort}`,
      `keys-changed: release.pem ${old.trusted.fingerprint}, next ${next.trusted.fingerprint}`,
    ]);
    await take({ number: 3, revoked: { keys: [old.trusted.fingerprint], releases: [fingerprint('b')] } });
    const [, , third, fourth] = await events();
    expect(third).toBe(
      `trust-list-applied: list 3, signed by release.pem ${oldShort}: ` +
        `revokes the key release.pem ${oldShort}; leaves out next ${nextShort}`,
    );
    expect(fourth).toBe('keys-changed: no key is trusted');
  });

  test('names revoked keys that the gateway does not know', async () => {
    const { take, events } = await start();
    await take({ number: 1, revoked: { keys: [fingerprint('c'), old.trusted.fingerprint], releases: [] } });
    expect((await events())[0]).toBe(
      `trust-list-applied: list 1, signed by release.pem ${oldShort}: ` +
        `revokes the key release.pem ${oldShort}; revokes the unknown key cccccccccc`,
    );
  });

  test('without other keys where it changes none, and as what it is where it changes nothing', async () => {
    const { take, events } = await start();
    await take({ number: 1 });
    expect(await events()).toEqual([`trust-list-applied: list 1, signed by release.pem ${oldShort}: changes nothing`]);
  });

  test('completely if it is applied again: the record before a power loss may be missing', async () => {
    const { take, events } = await start();
    await take({ keys: [nextKey] });
    await rm(join(folder, 'security.json'));
    const again = await start();
    await again.take({ keys: [nextKey] });
    expect(await again.events()).toEqual(await events().then(([first]) => [first]));
  });

  test('in a bounded text, whatever it holds', () => {
    const named = (from: number, count: number): TrustedKey[] =>
      Array.from({ length: count }, (_, n) => ({
        ...next.trusted,
        name: 'x'.repeat(64),
        fingerprint: digestOf(from + n),
      }));
    const digestOf = (n: number): string => `sha256:${n}`.padEnd('sha256:'.length + 64, 'f');
    const revoked = {
      keys: named(100, 256).map(({ fingerprint: digest }) => digest),
      releases: Array.from({ length: 2_000 }, (_, n) => digestOf(n)),
    };
    const list = { number: 1_000_000_000_000, issuedMs: 0, keys: named(0, 32), revoked };
    const before = { ...list, keys: named(50, 32), revoked: { keys: [], releases: [] } };
    const told = describeAppliedList({ list, before, signedBy: digestOf(100), known: named(100, 256) });
    expect(told.match(/and \d+ more/g)).toEqual(['and 254 more', 'and 1996 more', 'and 30 more', 'and 30 more']);
    expect(told.length).toBeLessThanOrEqual(400);
  });
});
