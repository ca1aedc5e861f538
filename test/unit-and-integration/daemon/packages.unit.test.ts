import { mkdtempSync, rmSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { listPackages, showPackages } from '../../../src/daemon/packages.ts';
import { packageFolder } from '../../../src/daemon/wiring/engine.ts';
import { PackageStore } from '../../../src/package/package-store.ts';
import { SystemError } from '../../../src/system/system-errors.ts';
import { MemoryJournal } from '../../../src/update/journal/journal.ts';
import { initialState } from '../../../src/update/journal/state.ts';
import type { Phase } from '../../../src/update/journal/state.ts';
import { deb, FakeDpkg } from '../package/fake-dpkg.ts';

const { signal } = new AbortController();
const settings = { installDeadlineMs: 60_000, gracePeriodMs: 60_000 };
const agent = { kind: 'package', name: 'agent', package: 'thing-agent', ...settings } as const;
const dpkg = new FakeDpkg(deb('1.9'));
const attempt = { id: '1', version: { name: 'v2' }, by: 'file', startedAt: '' } as const;
const firmware = { digest: 'sha256:00', provides: {}, payloads: [] };

const state = mkdtempSync(join(tmpdir(), 'packages-'));
const place = { config: { targets: [agent], paths: { state, run: state } }, journal: new MemoryJournal() };

beforeAll(async () => {
  await mkdir(packageFolder(place.config, 'agent'), { recursive: true });
  await new PackageStore(packageFolder(place.config, 'agent')).recordInstalled({
    digest: 'sha256:00',
    version: '1.1',
  });
});
afterAll(() => rmSync(state, { recursive: true }));

test('shows a package with its state in dpkg, and the result of an update', async () => {
  const told = { name: 'agent', package: 'thing-agent', version: '1.9' };
  expect(await listPackages(place, signal, dpkg.run)).toEqual([{ ...told, installedByUpdate: '1.1' }]);
  const untouched = { ...place, config: { ...place.config, paths: { state: '/nonexistent', run: '/nonexistent' } } };
  expect(await listPackages(untouched, signal, dpkg.run)).toEqual([told]);
});

test('shows a missing package without a version', async () => {
  const empty = new FakeDpkg(undefined);
  const told = { name: 'agent', package: 'thing-agent', version: undefined, installedByUpdate: '1.1' };
  expect(await listPackages(place, signal, empty.run)).toEqual([told]);
});

test.each<Phase>([
  {
    kind: 'trial',
    attempt,
    slot: 'A',
    firmware,
    trialsLeft: 0,
    bootId: '',
    rebootByHand: false,
    judgements: 1,
    approved: false,
    boards: {},
  },
  { kind: 'rolling-back', attempt, slot: 'A', firmware, code: '', reason: '', fault: 'world', boards: {}, restores: 0 },
])('what an update is exchanging in phase $kind is not taken for what a person did', async (phase) => {
  const journal = new MemoryJournal({ ...initialState, phase });
  const [told] = await listPackages({ ...place, journal }, signal, dpkg.run);
  expect(told).not.toHaveProperty('installedByUpdate');
});

test('status without dpkg shows no packages, and a gateway without such targets does not call it', async () => {
  const run = async (): Promise<never> => {
    throw new SystemError('program-missing', 'dpkg-query cannot be started');
  };
  expect(await showPackages(place, signal, run)).toEqual([]);
  expect(await listPackages({ ...place, config: { ...place.config, targets: [] } }, signal, run)).toEqual([]);
});
