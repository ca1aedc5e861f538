import { chmod, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { testInFull } from '../../in-full.ts';
import { stop } from '../../stand-ins/machine/file-gateway.ts';
import type { FileGateway } from '../../stand-ins/machine/file-gateway.ts';
import type { StandIn } from '../../stand-ins/service/stand-in.ts';
import { agentUser, firmware, TwoProcesses } from './two-processes-rig.ts';

/** Typed, as vitest's own is not. */
const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

let rig: TwoProcesses;
let service: StandIn;
let gateway: FileGateway;

beforeEach(async () => {
  rig = await TwoProcesses.create();
  ({ service, gateway } = rig);
});
afterEach(async () => {
  await rig[Symbol.asyncDispose]();
});

describe('an agent without rights, and its helper', () => {
  test('go from the look to the commit, and the journal is the helper’s alone', async () => {
    const first = await gateway.run('--update-now');
    expect(first).toMatchObject({ exitCode: 0 });
    expect(gateway.boot()).toBe('B');
    const second = await gateway.run('--update-now');
    expect(second).toMatchObject({ exitCode: 0 });
    expect(service.world.things[0]?.currentVersionId).toBe('v1');
    const state = join(gateway.directory, 'state');
    expect(await stat(join(state, 'journal.json'))).toMatchObject({ uid: process.getuid?.(), mode: 0o100_600 });
    expect(await readdir(state)).not.toContain('identity.json');
    expect((await readdir(join(state, 'agent'))).sort()).toEqual(['history.json', 'identity.json', 'security.json']);
    expect(await stat(join(state, 'agent/identity.json'))).toMatchObject({ uid: agentUser });
  });

  test('refuse what no trusted key signed, and what a person brings of that kind, and tell it as one process does', async () => {
    service.world.things[0]?.properties.clear();
    const file = join(gateway.directory, 'foreign.artifact');
    await writeFile(file, firmware.foreign);
    expect(await gateway.run('install', file)).toMatchObject({ exitCode: 77, stderr: matching(/signature/) });
    const log = await gateway.json('log', '--security');
    expect(JSON.stringify(log)).toContain('signature-refused');
    expect(gateway.boot()).toBe('A');
    await writeFile(file, firmware.v2);
    await chmod(file, 0o000); // root alone may read it
    const code = agentUser === process.getuid?.() ? /file-unreadable/ : /file-out-of-reach/;
    expect(await gateway.run('install', file)).toMatchObject({ exitCode: 64, stderr: matching(code) });
    await chmod(file, 0o644);
    expect(await gateway.run('install', file)).toMatchObject({ exitCode: 0 });
    expect(gateway.boot()).toBe('B');
    expect(await gateway.run('--update-now')).toMatchObject({ stderr: matching(/committing: slot B/) });
    expect(await gateway.json('history')).toMatchObject({
      attempts: [{ outcome: 'refused' }, { outcome: 'installed' }],
    });
  });

  test('go back where the agent finds the new firmware unhealthy', async () => {
    service.world.targetVersionId = 'bad';
    await gateway.run('--update-now');
    expect(gateway.boot()).toBe('B');
    await gateway.run('--update-now');
    expect(gateway.rebootRequested).toBe(true);
    expect(gateway.boot()).toBe('A');
    await gateway.run('--update-now');
    expect(await gateway.json('status')).toMatchObject({ lastOutcome: { outcome: 'rolled-back' } });
  });

  test('run as a daemon that answers, holds, and survives the helper’s death', async () => {
    const daemon = await gateway.startDaemon();
    await gateway.rebootRequest(AbortSignal.timeout(120_000));
    expect(await gateway.json('status')).toMatchObject({ booted: 'A', state: 'staged' });
    expect(await gateway.run('hold')).toMatchObject({ exitCode: 0 });
    const well = (await gateway.run('doctor')).stdout;
    expect(well).toMatch(/slot B can be written|gateway.*can be written/);
    expect(well).toMatch(/ok +helper +two processes, and it answers on/);
    await stop(rig.helper, 'SIGKILL');
    expect(await gateway.run('resume')).toMatchObject({ exitCode: 75, stderr: matching(/helper/) });
    const doctor = await gateway.run('doctor');
    expect(doctor).toMatchObject({ exitCode: 70, stdout: matching(/FAIL +helper +nobody answers/) });
    expect(doctor.stdout).toMatch(/ok +service/);
    await gateway.startHelper();
    expect(await gateway.run('resume')).toMatchObject({ exitCode: 0 });
    expect(await stop(daemon)).toBe(0);
  });

  testInFull('install an older release, and go back by force, for root, by the daemon or without', async () => {
    service.world.targetVersionId = 'safe';
    await gateway.run('--update-now');
    expect(gateway.boot()).toBe('B');
    const daemon = await gateway.startDaemon();
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
    const file = join(gateway.directory, 'older.artifact');
    await writeFile(file, firmware.v1);
    expect(await gateway.run('install', file)).toMatchObject({ exitCode: 77, stderr: matching(/security version/) });
    expect(await gateway.run('rollback')).toMatchObject({ exitCode: 77, stderr: matching(/agent rollback --force/) });
    expect(gateway.rebootRequested).toBe(false);
    expect(await gateway.run('rollback', '--force', '--no-reboot')).toMatchObject({ exitCode: 0 });
    expect(await gateway.run('cancel')).toMatchObject({ exitCode: 0 });
    await stop(daemon);
    expect(await gateway.run('install', file, '--allow-downgrade')).toMatchObject({ exitCode: 0 });
    expect(gateway.boot()).toBe('A');
    expect(await gateway.imageOf('A', 9)).toEqual(Buffer.from('healthy 1'));
    expect(await readdir(join(gateway.directory, 'helper'))).not.toContain('permit.json');
  });
});
