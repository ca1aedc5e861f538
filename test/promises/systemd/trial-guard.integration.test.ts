import { chmod, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { silentLog } from '../../../src/system/log.ts';
import type { UpdateEvent } from '../../../src/update/events.ts';
import { FileJournal } from '../../../src/update/journal.ts';
import type { Attempt, FirmwareRecord } from '../../../src/update/state.ts';
import { type Ended, newDirectory, run, systemdDirectory } from './installed-root.ts';

const THIS_BOOT = '11111111-1111-4111-8111-111111111111';
const BOOT_BEFORE = '22222222-2222-4222-8222-222222222222';

const attempt: Attempt = {
  id: 'a1',
  version: { id: '2', name: 'not "phase":{"kind":"idle"} and no "bootId":"x","rebootByHand":true' },
  by: 'service',
  startedAt: '',
};
const firmware: FirmwareRecord = {
  digest: 'sha256:2',
  provides: { bootId: THIS_BOOT, rebootByHand: 'true' },
  payloads: [],
};
const factory = { ...firmware, version: { name: 'factory' }, slot: 'A', at: '' } as const;

const toStaging: readonly UpdateEvent[] = [
  { type: 'factory-version', installed: factory },
  { type: 'staging-started', attempt, slot: 'B', at: '' },
];
const toStaged: readonly UpdateEvent[] = [
  ...toStaging,
  { type: 'staged', firmware, slot: 'B', trials: 2, name: undefined, records: {} },
];
const toTrial = (bootId: string, rebootByHand = false): readonly UpdateEvent[] => [
  ...toStaged,
  { type: 'trial-armed', bootId, rebootByHand },
];
const judged: readonly UpdateEvent[] = [...toTrial(BOOT_BEFORE), { type: 'judging' }];
const rollingBack: readonly UpdateEvent[] = [
  ...judged,
  { type: 'rollback-started', code: 'unhealthy', reason: 'it is', fault: 'firmware' },
];

let directory: string;
let state: string;

beforeEach(async () => {
  directory = await newDirectory();
  state = join(directory, 'state');
  await mkdir(state);
  await writeFile(join(directory, 'boot_id'), `${THIS_BOOT}\n`);
  await pretend('systemctl', `echo "$*" >> '${directory}/asked'`);
});

afterEach(async () => {
  await rm(directory, { recursive: true });
});

/** Puts a program in front of the machine's own. */
async function pretend(name: string, body: string): Promise<void> {
  await writeFile(join(directory, name), `#!/bin/sh\n${body}\n`);
  await chmod(join(directory, name), 0o755);
}

async function write(events: readonly UpdateEvent[]): Promise<void> {
  const journal = await FileJournal.open(state, silentLog);
  for (const event of events) await journal.append(event);
}

async function guard(patience = '0'): Promise<Ended> {
  const assignments = [
    `PATH=${directory}:${process.env['PATH'] ?? ''}`,
    `STATE_DIRECTORY=${state}`,
    `BOOT_ID_FILE=${join(directory, 'boot_id')}`,
    `PATIENCE=${patience}`,
  ];
  return run('env', ...assignments, join(systemdDirectory, 'trial-guard'));
}

/** What systemctl was asked for, one line each. */
async function asked(): Promise<string> {
  return readFile(join(directory, 'asked'), { encoding: 'utf8', flag: 'a+' });
}

describe('trial-guard', () => {
  test.each<[string, readonly UpdateEvent[]]>([
    ['nothing was ever installed', []],
    ['nothing is under way', toStaging.slice(0, 1)],
    ['an update is being staged', toStaging],
    ['a trial waits for its reboot, by the agent', toTrial(THIS_BOOT)],
    ['a trial waits for its reboot, by a person', toTrial(THIS_BOOT, true)],
    ['the trial was committed', [...judged, { type: 'committed', at: '', slot: 'B' }]],
    [
      'the trial was rolled back',
      [...rollingBack, { type: 'rolled-back', at: '', code: 'unhealthy', reason: 'it is', fault: 'firmware' }],
    ],
  ])('does nothing where %s', async (_, events) => {
    await write(events);
    expect(await guard()).toEqual({ exitCode: 0, output: '' });
    expect(await asked()).toBe('');
  });

  test('does nothing where the journal is damaged, which is for the agent to say', async () => {
    await writeFile(join(state, 'journal.json'), '{"format":1,"phase":');
    expect(await guard()).toEqual({ exitCode: 0, output: '' });
    expect(await asked()).toBe('');
  });

  test.each<[string, readonly UpdateEvent[]]>([
    ['a trial was booted and never judged', toTrial(BOOT_BEFORE)],
    ['a trial that a person rebooted was never judged', toTrial(BOOT_BEFORE, true)],
    ['a judgement never ended', judged],
    ['a staged slot may be on trial', toStaged],
    ['a staged slot was being judged', [...toStaged, { type: 'judging' }]],
    ['a rollback never rebooted', rollingBack],
  ])('reboots where %s', async (_, events) => {
    await write(events);
    expect(await guard()).toMatchObject({
      exitCode: 0,
      output: expect.stringContaining('<4>a trial is open') as string,
    });
    expect(await asked()).toBe('reboot\n');
  });

  test('leaves a trial alone that somebody works on', async () => {
    await write(toTrial(BOOT_BEFORE));
    await pretend('sleep', `echo ' ' >> '${state}/journal.json'`);
    expect(await guard()).toMatchObject({ exitCode: 75 });
    expect(await asked()).toBe('');
  });

  test('asks by force where systemd does not reboot, and says when that fails', async () => {
    await write(judged);
    await pretend('systemctl', `echo "$*" >> '${directory}/asked'; exit 1`);
    expect(await guard()).toMatchObject({ exitCode: 1 });
    expect(await asked()).toBe('reboot\nreboot --force\n');
  });

  test('gives up when three reboots changed nothing, and begins anew when something did', async () => {
    await write(toTrial(BOOT_BEFORE));
    const codes = [await guard(), await guard(), await guard(), await guard()].map(({ exitCode }) => exitCode);
    expect(codes).toEqual([0, 0, 0, 2]);
    expect(await asked()).toBe('reboot\nreboot\nreboot\n');
    await write([{ type: 'judging' }]);
    expect(await guard()).toMatchObject({ exitCode: 0 });
    expect(await asked()).toBe('reboot\n'.repeat(4));
  });

  test('does not reboot where it cannot count its reboots', async () => {
    await write(judged);
    await mkdir(join(state, 'trial-guard.new'));
    expect(await guard()).toMatchObject({ exitCode: 2, output: expect.stringContaining('not rebooting') as string });
    expect(await asked()).toBe('');
  });

  test('forgets its count when the trial has ended', async () => {
    await write(judged);
    await guard();
    await write([{ type: 'committed', at: '', slot: 'B' }]);
    await guard();
    await expect(readFile(join(state, 'trial-guard'))).rejects.toThrow('ENOENT');
  });
});
