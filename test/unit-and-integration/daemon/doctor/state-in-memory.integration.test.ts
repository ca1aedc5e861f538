import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';

import { FileGateway, stop } from '../../../fakes/machine/file-gateway.ts';
import { bufferContent } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import type { StandIn } from '../../../fakes/service/stand-in.ts';
import { untilTestEnds } from '../../../until-test-ends.ts';
import { LoopDevice } from '../../slots/loop-device.ts';

const run = promisify(execFile);
const SLOT_BYTES = 409_600;

function image(text: string): Buffer {
  return Buffer.alloc(200_000, `${text}\n`, 'latin1');
}

let service: StandIn;

beforeEach(async () => {
  const versions = ['v1', 'v2'].map((id) => ({ id, firmware: bufferContent(image(`healthy ${id}`)) }));
  service = untilTestEnds(await startStandIn({ versions, currentVersionId: 'v1' }));
});

/** Typed, as vitest's own is not. */
const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

async function gatewayWith(slots?: { readonly A: string; readonly B: string }): Promise<FileGateway> {
  const updateToml = 'trial_attempts = 1';
  const options = { serviceUrl: service.url, image: image('healthy 0'), slotBytes: SLOT_BYTES, updateToml };
  return untilTestEnds(await FileGateway.create({ ...options, ...(slots && { slots }) }));
}

async function gatewayOnDevices(): Promise<FileGateway> {
  const A = untilTestEnds(await LoopDevice.attach(SLOT_BYTES));
  const B = untilTestEnds(await LoopDevice.attach(SLOT_BYTES));
  return gatewayWith({ A: A.path, B: B.path });
}

/** As an image with `systemd.volatile=state` has it where its state partition is not there. Returns how that ends. */
async function keepStateInMemory(gateway: FileGateway): Promise<() => Promise<void>> {
  const state = join(gateway.directory, 'state');
  await mkdir(state, { recursive: true });
  await run('mount', ['-t', 'tmpfs', 'tmpfs', state]);
  let isMounted = true;
  const end = async (): Promise<void> => {
    if (isMounted) await run('umount', ['--lazy', state]);
    isMounted = false;
  };
  onTestFinished(end);
  return end;
}

async function unwrapped(gateway: FileGateway, ...args: readonly string[]): Promise<string> {
  const { stdout, stderr } = await gateway.run(...args);
  return (stdout + stderr).replaceAll(/\s+/g, ' ');
}

const IN_MEMORY = /is in memory: the state partition is not mounted/;
const MOUNT_IT = /mount the state partition at /;

describe('a gateway with devices as slots and a state directory in memory', () => {
  // Regression: it activated, staged and armed v2, and forgot all of that at the reboot.
  test('installs nothing, reports it everywhere, and continues without a restart when the partition is mounted', async () => {
    const gateway = await gatewayOnDevices();
    const mountPartition = await keepStateInMemory(gateway);
    const lines: string[] = [];
    const daemon = await gateway.startDaemon((line) => lines.push(line));
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 74, stderr: matching(/is in memory/) });
    expect(lines.join('\n')).toMatch(/the state directory cannot be used, so nothing is installed: .*is in memory/);
    for (const args of [['status'], ['doctor'], ['config', 'check']]) {
      expect(await unwrapped(gateway, ...args)).toMatch(IN_MEMORY);
    }
    expect(await unwrapped(gateway, 'doctor')).toMatch(MOUNT_IT);
    expect(await gateway.run('config', 'check')).toMatchObject({ exitCode: 74, stderr: matching(/mount the state/) });
    expect(await readFile(join(gateway.directory, 'boot/environment'), 'utf8')).toMatch(
      /^ORDER="A B" A_LEFT=3 B_LEFT=0/,
    );
    expect(await gateway.imageOf('B', SLOT_BYTES)).toEqual(Buffer.alloc(SLOT_BYTES));
    expect(await readdir(join(gateway.directory, 'state'))).not.toContain('journal.json');
    expect(service.world.things).toHaveLength(1);
    await mountPartition();
    await gateway.run('--update-now');
    expect(gateway.rebootRequested).toBe(true);
    expect(await readFile(join(gateway.directory, 'state/identity.json'), 'utf8')).toContain('apiKey');
    expect(await stop(daemon)).toBe(0);
  });

  test('keeps the committed version and its record: no manual rollback until then', async () => {
    const gateway = await gatewayOnDevices();
    await gateway.run('--update-now');
    expect(gateway.boot()).toBe('B');
    await gateway.run('--update-now');
    const journal = join(gateway.directory, 'state/journal.json');
    const before = await readFile(journal, 'utf8');
    const mountPartition = await keepStateInMemory(gateway);
    service.world.targetVersionId = 'v2';
    const daemon = await gateway.startDaemon();
    expect(await gateway.run('rollback')).toMatchObject({ exitCode: 74, stderr: matching(/is in memory/) });
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 74 });
    expect(await unwrapped(gateway, 'status')).toMatch(IN_MEMORY);
    expect(gateway.rebootRequested).toBe(false);
    await mountPartition();
    expect(await readFile(journal, 'utf8')).toBe(before);
    service.world.targetVersionId = 'v1';
    await gateway.run('--update-now');
    expect(await gateway.json('status')).toMatchObject({ installed: { versionId: 'v1' } });
    expect(await unwrapped(gateway, 'status')).not.toMatch(IN_MEMORY);
    expect(await stop(daemon)).toBe(0);
    expect(gateway.boot()).toBe('B');
  });
});

test('a gateway in a folder, with slots that are files, may lie in memory as a whole', async () => {
  const gateway = await gatewayWith();
  await keepStateInMemory(gateway);
  expect(await gateway.run('config', 'check')).toMatchObject({ exitCode: 0 });
  await gateway.run('--update-now');
  expect(gateway.rebootRequested).toBe(true);
  expect(gateway.boot()).toBe('B');
  await gateway.run('--update-now');
  expect(await gateway.json('status')).toMatchObject({ installed: { versionId: 'v1' } });
});
