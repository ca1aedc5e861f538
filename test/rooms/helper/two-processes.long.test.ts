import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { stop } from '../../stand-ins/machine/file-gateway.ts';
import type { FileGateway } from '../../stand-ins/machine/file-gateway.ts';
import type { StandIn } from '../../stand-ins/service/stand-in.ts';
import { firmware, TwoProcesses } from './two-processes-rig.ts';

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
  test('install an older release, and go back by force, for root, by the daemon or without', async () => {
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
