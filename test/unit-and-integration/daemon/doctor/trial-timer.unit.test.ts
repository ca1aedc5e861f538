import { readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, expect, test } from 'vitest';

import { notifyTrialTimer } from '../../../../src/daemon/doctor/trial-timer.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { folderUntilTestEnds } from '../../../until-test-ends.ts';

const machine = { bootId: async () => 'this-boot' };
let directory: string;

beforeEach(() => {
  directory = folderUntilTestEnds();
});

test('records for the trial timer in which boot the slot was committed', async () => {
  const run = join(directory, 'run');
  await notifyTrialTimer(run, machine, silentLog);
  await notifyTrialTimer(run, machine, silentLog);
  expect(await readFile(join(run, 'committed'), 'utf8')).toBe('this-boot\n');
});

// Regression: in a directory that had belonged to an agent's user, root wrote through a link.
test('replaces an existing entry, whatever it links to', async () => {
  const victim = join(directory, 'victim');
  await writeFile(victim, 'mine');
  await symlink(victim, join(directory, 'committed'));
  await notifyTrialTimer(directory, machine, silentLog);
  expect(await readFile(victim, 'utf8')).toBe('mine');
  expect(await readFile(join(directory, 'committed'), 'utf8')).toBe('this-boot\n');
});

test('a commit succeeds without the record for the trial timer, and reports it', async () => {
  const run = join(directory, 'file');
  await writeFile(run, '');
  const said: string[] = [];
  const log = { ...silentLog, warn: (_fields: object, message: string) => void said.push(message) };
  await notifyTrialTimer(run, machine, log);
  expect(said).toEqual(['the trial timer could not be notified of the commit']);
});
