import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, expect, test } from 'vitest';

import { claimState } from '../../../../src/daemon/wiring/claim-state.ts';
import { FileIdentityStore } from '../../../../src/service/identity.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { FileJournal } from '../../../../src/update/journal/journal.ts';
import { initialState } from '../../../../src/update/journal/state.ts';
import { folderUntilTestEnds } from '../../../until-test-ends.ts';

const identity = { serialNumber: 'GW/K1', thingId: 'thing-3', apiKey: 'key', activatedAt: '2027-01-01T00:00:00.000Z' };
let state: string;

beforeEach(async () => {
  state = folderUntilTestEnds();
  for (const name of ['queue.db', 'queue.db-wal', 'history.json', 'trust.json'])
    await writeFile(join(state, name), name);
  await new FileIdentityStore(state, identity.serialNumber, silentLog).save(identity);
  const journal = { ...initialState, pendingSwitch: 'v2', named: { id: 'v2' }, forgot: true };
  await writeFile(join(state, 'journal.json'), JSON.stringify(journal));
});

async function start(serialNumber: string): Promise<FileJournal> {
  const identities = new FileIdentityStore(state, serialNumber, silentLog);
  const onJournal = await claimState({ stateDirectory: state, identities, log: silentLog });
  const journal = await FileJournal.open(state, silentLog);
  await onJournal(journal);
  return journal;
}

test('keeps the state of its own serial number', async () => {
  const before = await readdir(state);
  const journal = await start('GW/K1');
  expect(await readdir(state)).toEqual(before);
  expect(journal.state.pendingSwitch).toBe('v2');
});

// Regression: a copied state directory in other hardware delivered the datapoints of the first gateway as its own.
test('sets aside queue, history and unsent reports, and keeps slots and trust', async () => {
  const journal = await start('GW-K2');
  const aside = join(state, 'of-GW_K1');
  expect((await readdir(aside)).toSorted()).toEqual(['history.json', 'journal.json', 'queue.db', 'queue.db-wal']);
  expect(await readFile(join(aside, 'journal.json'), 'utf8')).toContain('"pendingSwitch":"v2"');
  expect((await readdir(state)).toSorted()).toEqual([
    'identity.json.other-serial-number',
    'journal.json',
    'of-GW_K1',
    'trust.json',
  ]);
  expect(journal.state).toMatchObject({ reports: [], versions: [], forgot: true });
  expect(journal.state.pendingSwitch).toBeUndefined();
  expect(journal.state.named).toBeUndefined();
});

test('repeats the rest after a power cut before the identity was set aside', async () => {
  const identities = new FileIdentityStore(state, 'GW-K2', silentLog);
  await claimState({ stateDirectory: state, identities, log: silentLog });
  await start('GW-K2');
  expect(await readFile(join(state, 'of-GW_K1', 'queue.db'), 'utf8')).toBe('queue.db');
  expect(await readdir(state)).toContain('identity.json.other-serial-number');
});

test('stops delivery, and not the agent, if the state directory cannot be written', async () => {
  await writeFile(join(state, 'of-GW_K1'), 'no folder');
  await expect(start('GW-K2')).resolves.toBeDefined();
  const identities = new FileIdentityStore(state, 'GW-K2', silentLog);
  await expect(identities.load()).rejects.toMatchObject({ code: 'identity-foreign' });
});
