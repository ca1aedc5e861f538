import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { notifyTrialTimer } from '../../../../src/daemon/doctor/trial-timer.ts';
import { silentLog } from '../../../../src/system/log/log.ts';

const machine = { bootId: async () => 'this-boot' };
let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'safety-net-'));
});
afterEach(async () => {
  await rm(directory, { recursive: true });
});

test('the safety net is told in which boot the slot was kept', async () => {
  const run = join(directory, 'run');
  await notifyTrialTimer(run, machine, silentLog);
  await notifyTrialTimer(run, machine, silentLog);
  expect(await readFile(join(run, 'committed'), 'utf8')).toBe('this-boot\n');
});

// Regression: in a folder that had been the user's of an agent, root wrote through the link that lay there.
test('what lies there before is replaced, whatever it leads to', async () => {
  const victim = join(directory, 'victim');
  await writeFile(victim, 'mine');
  await symlink(victim, join(directory, 'committed'));
  await notifyTrialTimer(directory, machine, silentLog);
  expect(await readFile(victim, 'utf8')).toBe('mine');
  expect(await readFile(join(directory, 'committed'), 'utf8')).toBe('this-boot\n');
});

test('a commit does not fail because the safety net could not be told, but it is said', async () => {
  const run = join(directory, 'file');
  await writeFile(run, '');
  const said: string[] = [];
  const log = { ...silentLog, warn: (_fields: object, message: string) => void said.push(message) };
  await notifyTrialTimer(run, machine, log);
  expect(said).toEqual(['the safety net could not be told that this slot is kept']);
});
