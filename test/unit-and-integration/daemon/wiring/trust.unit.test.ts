import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Volume } from 'memfs';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { Trust } from '../../../../src/daemon/wiring/trust.ts';
import type { KeyFile } from '../../../../src/firmware/artifact/trust.ts';
import type { TrustListFile } from '../../../../src/firmware/trust/trust-list.ts';
import type { DurableFs } from '../../../../src/system/files/durable-file.ts';
import { makeKeyPair } from '../../firmware/artifact/keys.ts';
import { fingerprint, listBytes } from '../../firmware/trust/lists.ts';

const release = makeKeyPair('ecdsa-p256');
const listed = makeKeyPair('ed25519');
const { signal } = new AbortController();
const now = Date.UTC(2026, 10, 22);
const day = 24 * 60 * 60 * 1000;

let directory: string;
let volume: Volume;

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'trust-'));
  writeFileSync(join(directory, 'release.pem'), release.publicPem);
});
afterAll(() => rmSync(directory, { recursive: true }));
beforeEach(() => {
  volume = Volume.fromJSON({ '/state/.keep': '' });
});

interface World {
  readonly life?: Omit<KeyFile, 'file'>;
  readonly allowUnsigned?: boolean;
  /** True if a time server has set the clock. */
  readonly isSet?: boolean;
}

function trust({ life = {}, allowUnsigned = false, isSet = true }: World = {}): Trust {
  const clock = { nowMs: () => now, monotonicMs: () => 0, sleep: async (): Promise<void> => {} };
  const keys = [{ file: join(directory, 'release.pem'), ...life }];
  return new Trust({
    config: { trust: { keys, allowUnsigned }, paths: { state: '/state' } },
    fs: volume.promises as unknown as DurableFs,
    clock,
    probe: async () => (isSet ? 'synchronized' : 'not-yet'),
  });
}

async function take(more: Partial<TrustListFile>): Promise<void> {
  await trust().takeList(listBytes({ issued: '2026-11-22T00:00:00Z', ...more }), { artifact: fingerprint('9') }, []);
}

const waiting = { digest: fingerprint('1'), signedBy: release.trusted.fingerprint };
const nothing = { keys: [], releases: [] };

describe('an update that waits for its boot is not booted', () => {
  const doubt = async (firmware: { digest: string; signedBy?: string } = waiting, world: World = {}) =>
    trust(world).distrusted(firmware, signal);

  test('once its release was revoked; another one is', async () => {
    expect(await doubt()).toBeUndefined();
    await take({ revoked: { ...nothing, releases: [fingerprint('1')] } });
    expect(await doubt()).toBe('was revoked');
    expect(await doubt({ ...waiting, digest: fingerprint('2') })).toBeUndefined();
  });

  test('once its key was revoked', async () => {
    await take({ revoked: { ...nothing, keys: [release.trusted.fingerprint] } });
    expect(await doubt()).toMatch(/^is signed by .*, revoked$/);
  });

  test('once its key is over', async () => {
    expect(await doubt(waiting, { life: { notAfterMs: now + day } })).toBeUndefined();
    expect(await doubt(waiting, { life: { notAfterMs: now - day } })).toMatch(/, expired$/);
  });

  test('once its key is no longer trusted; a key from a list is', async () => {
    const other = { ...waiting, signedBy: listed.trusted.fingerprint };
    expect(await doubt(other)).toContain('is no longer a trusted key');
    await take({ keys: [{ name: 'next', pem: listed.publicPem }] });
    expect(await doubt(other)).toBeUndefined();
  });

  test('while the revocations are unknown', async () => {
    volume.writeFileSync('/state/trust.json', '{');
    expect(await doubt()).toContain('cannot be verified');
  });

  test('unsigned, once that is no longer permitted', async () => {
    const unsigned = { digest: waiting.digest };
    expect(await doubt(unsigned)).toContain('allow_unsigned no longer permits');
    expect(await doubt(unsigned, { allowUnsigned: true })).toBeUndefined();
  });
});

describe('a release on trial', () => {
  test('is forbidden by a list alone, by its release or by its key', async () => {
    const untrusted = { ...waiting, signedBy: listed.trusted.fingerprint };
    expect(await trust().revoked(untrusted)).toBeUndefined();
    await take({ number: 1, revoked: { ...nothing, releases: [fingerprint('1')] } });
    expect(await trust().revoked(waiting)).toBe('was revoked by list 1');
    expect(await trust().revoked({ digest: fingerprint('2') })).toBeUndefined();
    await take({ number: 2, revoked: { ...nothing, keys: [listed.trusted.fingerprint] } });
    expect(await trust().revoked({ ...untrusted, digest: fingerprint('2') })).toContain('revoked by list 2');
    volume.writeFileSync('/state/trust.json', '{');
    expect(await trust().revoked(waiting)).toBe('was revoked by list 2');
    volume.writeFileSync('/state/trust-copy.json', '{');
    expect(await trust().revoked(waiting)).toBe('was revoked by list 2');
    volume.writeFileSync('/state/trust-revoked.json', '{');
    expect(await trust().revoked(waiting)).toBeUndefined();
  });
});

describe('the keys of a gateway', () => {
  test('come from the configuration and the list, which wins where both have one', async () => {
    const life = { not_after: '2026-11-01' };
    const again = { name: 'shorter', pem: release.publicPem, ...life };
    await take({ keys: [again, { name: 'next', pem: listed.publicPem }] });
    const { keys } = await trust().keyring(signal);
    expect(keys.map(({ name, notAfterMs }) => [name, notAfterMs])).toEqual([
      ['shorter', Date.UTC(2026, 10, 1)],
      ['next', undefined],
    ]);
    expect(await trust().distrusted(waiting, signal)).toMatch(/, expired$/);
  });

  test('expire by the time of the list if no clock was set: its signer certifies that time', async () => {
    const world = { life: { notAfterMs: Date.UTC(2026, 10, 20) }, isSet: false };
    expect(await trust(world).distrusted(waiting, signal)).toBeUndefined();
    await take({});
    expect(await trust(world).distrusted(waiting, signal)).toMatch(/, expired$/);
  });

  test('expire by the service’s time, for as long as this process runs', async () => {
    const world = { life: { notAfterMs: now - day }, isSet: false };
    const running = trust(world);
    running.onServiceTime(now);
    expect(await running.distrusted(waiting, signal)).toMatch(/, expired$/);
    expect(await trust(world).distrusted(waiting, signal)).toBeUndefined();
  });
});

describe('a clock that a time server has not set', () => {
  test.each([
    ['nobody was heard', undefined, false],
    ['the service’s shows the same', now - 2_000, true],
    ['the service’s shows another year', now - 365 * day, false],
  ])('and %s', async (_, serviceMs, isSet) => {
    const unset = trust({ isSet: false });
    if (serviceMs !== undefined) unset.onServiceTime(serviceMs);
    expect(await unset.isClockSet(signal)).toBe(isSet);
  });
});
