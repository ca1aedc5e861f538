import { chmod, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { silentLog } from '../../../src/system/log/log.ts';
import { FileJournal } from '../../../src/update/journal/journal.ts';
import type { UpdateEvent, Attempt, FirmwareRecord } from '../../../src/update/journal/state.ts';
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
const judged: readonly UpdateEvent[] = [...toTrial(BOOT_BEFORE), { type: 'health-check-started' }];
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
  await bootedWith('root=/dev/sda2 quiet');
  await writeFile(join(directory, 'uptime'), '3600.17 7000.00\n');
  await pretendSystemctl();
});

afterEach(async () => {
  await rm(directory, { recursive: true });
});

/** Puts a program in front of the machine's own. */
async function pretend(name: string, body: string): Promise<void> {
  await writeFile(join(directory, name), `#!/bin/sh\n${body}\n`);
  await chmod(join(directory, name), 0o755);
}

/**
 * `mount`: systemd's properties of the mount unit of the state directory; `timer`: when the timer began, with
 * microseconds.
 */
async function pretendSystemctl(mount = 'LoadState=not-found', reboot = 'true', timer = STARTED): Promise<void> {
  const unit = String.raw`*state.mount) printf '%s\n'`;
  const times = `*Userspace*) echo ${STARTED} ;; *-trial.timer) echo ${timer} ;;`;
  const show = `case $* in ${times} ${unit} ${mount} ;; *) printf 'LoadState=not-found\\nActiveState=inactive\\n' ;; esac; exit`;
  await pretend('systemctl', `if [ "$1" = show ]; then ${show}; fi\necho "$*" >> '${directory}/asked'; ${reboot}`);
}

/** Microseconds after the kernel. */
const STARTED = '4100200';
const MOUNTED = 'ActiveState=active LoadState=loaded';
const NOT_MOUNTED = 'LoadState=loaded ActiveState=failed';

async function bootedWith(commandLine: string): Promise<void> {
  await writeFile(join(directory, 'cmdline'), `${commandLine}\n`);
}

/** Marks the slot as committed by the agent in this boot. */
async function keptIn(bootId: string): Promise<void> {
  await writeFile(join(directory, 'committed'), `${bootId}\n`);
}

async function write(events: readonly UpdateEvent[]): Promise<void> {
  const journal = await FileJournal.open(state, silentLog);
  for (const event of events) await journal.append(event);
}

async function guard(...args: readonly string[]): Promise<Ended> {
  const assignments = [
    `COMMAND_LINE_FILE=${join(directory, 'cmdline')}`,
    `TRYBOOT_FILE=${join(directory, 'tryboot')}`,
    `UPTIME_FILE=${join(directory, 'uptime')}`,
    `RUNTIME_DIRECTORY=${directory}`,
    `PATH=${directory}:${process.env['PATH'] ?? ''}`,
    `STATE_DIRECTORY=${state}`,
    `BOOT_ID_FILE=${join(directory, 'boot_id')}`,
    'PATIENCE=0',
  ];
  return run('env', ...assignments, join(systemdDirectory, 'trial-guard'), ...args);
}

/** Returns the arguments of each call of systemctl, one line each. */
async function asked(): Promise<string> {
  return readFile(join(directory, 'asked'), { encoding: 'utf8', flag: 'a+' });
}

describe('trial-guard', () => {
  test('does not wait for a pipe instead of the journal, or instead of the mark of a committed slot', async () => {
    await run('mkfifo', join(state, 'journal.json'), join(directory, 'committed'));
    expect(await guard()).toEqual({ exitCode: 0, output: '' });
    await bootedWith('thing.trial=1');
    expect(await guard()).toMatchObject({ exitCode: 0 });
    expect(await asked()).toBe('reboot\n');
  });

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
    ['a staged slot was being judged', [...toStaged, { type: 'health-check-started' }]],
    ['a rollback never rebooted', rollingBack],
  ])('reboots where %s', async (_, events) => {
    await write(events);
    expect(await guard()).toMatchObject({
      exitCode: 0,
      output: expect.stringContaining('<4>a trial is open') as string,
    });
    expect(await asked()).toBe('reboot\n');
  });

  test('does not end a trial while an agent works on it', async () => {
    await write(toTrial(BOOT_BEFORE));
    await pretend('sleep', `echo ' ' >> '${state}/journal.json'`);
    expect(await guard()).toMatchObject({ exitCode: 75 });
    expect(await asked()).toBe('');
  });

  test('forces a reboot if systemd does not reboot, and reports a failure of that', async () => {
    await write(judged);
    await pretendSystemctl(undefined, 'exit 1');
    expect(await guard()).toMatchObject({ exitCode: 1 });
    expect(await asked()).toBe('reboot\nreboot --force\n');
  });

  test('stops after three reboots that changed nothing, and starts again after a change', async () => {
    await write(toTrial(BOOT_BEFORE));
    const codes = [await guard(), await guard(), await guard(), await guard()].map(({ exitCode }) => exitCode);
    expect(codes).toEqual([0, 0, 0, 2]);
    expect(await asked()).toBe('reboot\nreboot\nreboot\n');
    await write([{ type: 'health-check-started' }]);
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

  test('ends a trial of which it knows from the bootloader alone, without a state that it could read or write', async () => {
    await rm(state, { recursive: true });
    await bootedWith('quiet thing.slot=B thing.trial=1 panic=10');
    expect(await guard()).toEqual({
      exitCode: 0,
      output:
        '<4>a trial is open without health checks (by the bootloader, and the agent has not committed it): rebooting, so that the bootloader falls back\n',
    });
    expect(await asked()).toBe('reboot\n');
  });

  test('ends a trial as often as the bootloader reports one, although it cannot count', async () => {
    await write(judged);
    await mkdir(join(state, 'trial-guard.new'));
    await bootedWith('thing.trial=1');
    const codes = [await guard(), await guard(), await guard(), await guard()].map(({ exitCode }) => exitCode);
    expect(codes).toEqual([0, 0, 0, 0]);
  });

  test('ends a trial despite another gateway’s journal, such as one in the slot', async () => {
    await write(toStaging.slice(0, 1));
    await bootedWith('thing.trial=1');
    await guard();
    expect(await asked()).toBe('reboot\n');
  });

  test('knows a Raspberry Pi’s trial from the device tree', async () => {
    await writeFile(join(directory, 'tryboot'), Buffer.from([0, 0, 0, 0]));
    await guard();
    expect(await asked()).toBe('');
    await writeFile(join(directory, 'tryboot'), Buffer.from([0, 0, 0, 1]));
    await guard();
    expect(await asked()).toBe('reboot\n');
  });

  test('leaves a trial that the agent has kept in this boot, not in another', async () => {
    await write([...judged, { type: 'committed', at: '', slot: 'B' }]);
    await bootedWith('thing.trial=1');
    await keptIn(THIS_BOOT);
    expect(await guard()).toEqual({ exitCode: 0, output: '' });
    expect(await asked()).toBe('');
    await keptIn(BOOT_BEFORE);
    await guard();
    expect(await asked()).toBe('reboot\n');
  });

  // Regression: an update that waited for its window, or for an operator's hold to end, rebooted the gateway three times.
  test('does not reboot for a scheduled update if the agent committed the running slot in this boot', async () => {
    await write(toStaged);
    await keptIn(THIS_BOOT);
    expect(await guard()).toEqual({ exitCode: 0, output: '' });
    expect(await asked()).toBe('');
    await keptIn(BOOT_BEFORE);
    await guard();
    expect(await asked()).toBe('reboot\n');
  });

  test('does not reboot if the bootloader reports no trial and there is no journal', async () => {
    await bootedWith('thing.slot=B thing.trial=0');
    expect(await guard()).toEqual({ exitCode: 0, output: '' });
    expect(await asked()).toBe('');
  });

  // Regression on a gateway that boots: a scheduled update without a daemon caused three reboots of the committed slot; with
  // a state that does not mount they never ended.
  test.each<[string, readonly UpdateEvent[]]>([
    ['is staged', toStaged],
    ['was on trial in another boot', judged],
    ['is being rolled back', rollingBack],
  ])(
    'leaves a boot that is no trial by the bootloader’s word, though by the journal a firmware %s',
    async (_, events) => {
      await write(events);
      await bootedWith('thing.slot=A thing.trial=0');
      expect(await guard()).toEqual({ exitCode: 0, output: '' });
      await bootedWith('quiet');
      await writeFile(join(directory, 'tryboot'), Buffer.from([0, 0, 0, 0]));
      expect(await guard()).toEqual({ exitCode: 0, output: '' });
      expect(await asked()).toBe('');
    },
  );

  test('does not reboot if the bootloader reports no trial and the state is not mounted', async () => {
    await pretendSystemctl(NOT_MOUNTED);
    await bootedWith('thing.slot=A thing.trial=0');
    expect(await guard()).toEqual({ exitCode: 0, output: '' });
    expect(await asked()).toBe('');
  });

  test('does not take a state that is not mounted yet for nothing to do, but looks again', async () => {
    await pretendSystemctl(NOT_MOUNTED);
    await writeFile(join(directory, 'uptime'), '65.03 60.00\n');
    expect(await guard()).toMatchObject({ exitCode: 75, output: expect.stringContaining('not mounted yet') as string });
    expect(await asked()).toBe('');
    await write(judged);
    await pretendSystemctl(MOUNTED);
    await guard();
    expect(await asked()).toBe('reboot\n');
  });

  test('reboots where half an hour after the start the state is not mounted, and the agent has kept nothing', async () => {
    await pretendSystemctl(NOT_MOUNTED);
    await keptIn(THIS_BOOT);
    expect(await guard()).toEqual({ exitCode: 0, output: '' });
    await rm(join(directory, 'committed'));
    expect(await guard()).toMatchObject({ exitCode: 0, output: expect.stringContaining('is not mounted') as string });
    expect(await asked()).toBe('reboot\n');
  });

  // If an operator starts it with the agent, the timer elapses immediately: health checks have only begun.
  test.each<[string, string, readonly UpdateEvent[], string | undefined]>([
    ['the bootloader’s word', 'thing.trial=1', [], undefined],
    ['the journal', 'quiet', judged, undefined],
    ['a state that is not mounted', 'quiet', [], NOT_MOUNTED],
  ])(
    'gives a trial by %s half an hour from the start of its timer, where that came late',
    async (_, commandLine, events, mount) => {
      await bootedWith(commandLine);
      await write(events);
      await pretendSystemctl(mount, undefined, '1900000000');
      expect(await guard()).toMatchObject({ exitCode: 75, output: expect.stringContaining('began late') as string });
      expect(await guard('--look')).toMatchObject({ exitCode: 3 });
      expect(await asked()).toBe('');
      await writeFile(join(directory, 'uptime'), '3700.17 7000.00\n');
      expect(await guard()).toMatchObject({ exitCode: 0 });
      expect(await asked()).toBe('reboot\n');
    },
  );

  test('does not reboot without a trial when the timer began late', async () => {
    await write(toStaging.slice(0, 1));
    await pretendSystemctl(undefined, undefined, '1900000000');
    expect(await guard()).toEqual({ exitCode: 0, output: '' });
  });

  test.each([
    ['began with the system', '30000000'],
    ['does not run, as in emergency mode', '0'],
    ['is unknown to systemd, which does not answer', ''],
  ])('waits for no timer that %s', async (_, timer) => {
    await writeFile(join(directory, 'uptime'), '65.03 60.00\n');
    await bootedWith('thing.trial=1');
    await pretendSystemctl(undefined, undefined, timer);
    expect(await guard()).toMatchObject({ exitCode: 0 });
    expect(await asked()).toBe('reboot\n');
  });

  test('reports in a dry run what it would do, and does nothing', async () => {
    await write(judged);
    expect(await guard('--look')).toEqual({
      exitCode: 3,
      output: 'a trial may be open without health checks (phase trial)\n',
    });
    await write([{ type: 'committed', at: '', slot: 'B' }]);
    expect(await guard('--look')).toEqual({ exitCode: 0, output: '' });
    expect(await asked()).toBe('');
  });
});
