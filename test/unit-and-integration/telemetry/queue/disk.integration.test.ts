import { execFileSync, spawnSync } from 'node:child_process';
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  closeSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import process from 'node:process';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { RecordingLog } from '../../service/recording-log.ts';
import { QueueRig, drain, points, values } from './queue-rig.ts';

const databaseModule = resolve(import.meta.dirname, '../../../../src/telemetry/queue/database/queue-database.ts');
/** Longer than the queue leaves a disk alone that has failed. */
const AGAIN_MS = 31_000;

let stack: DisposableStack;
let directory: string;
let mount: string;

beforeEach(() => {
  stack = new DisposableStack();
  directory = mkdtempSync(join(tmpdir(), 'disk-'));
  stack.defer(() => rmSync(directory, { recursive: true }));
  mount = join(directory, 'mount');
  mkdirSync(mount);
});
afterEach(() => {
  stack.dispose();
});

function run(program: string, ...args: readonly string[]): string {
  return execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
}

/** The device: it outlives the mount, so that nothing of it is cached twice. */
function mountExt4(options: string): string {
  const image = join(directory, 'image');
  run('truncate', '-s', '16M', image);
  run('mkfs.ext4', '-q', image);
  const device = run('losetup', '--find', '--show', image).trim();
  stack.defer(() => run('losetup', '--detach', device));
  run('mount', '-o', options, device, mount);
  stack.defer(() => run('umount', mount));
  return device;
}

function rigThere(): QueueRig {
  return stack.use(new QueueRig({ path: join(mount, 'queue.db'), memoryPoints: 100_000 }));
}

/** All that is there, in the order of each event. */
function delivered(rig: QueueRig): unknown[] {
  return drain(rig.queue).flatMap(values);
}

const numbers = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

test('a full file system: points stay in memory, which is reported, and are written once there is space', () => {
  run('mount', '-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', mount);
  stack.defer(() => run('umount', mount));
  const rig = rigThere();
  rig.queue.push(points(500, 'before'));
  expect(rig.queue.flush()).toBe(true);
  const filler = join(mount, 'filler');
  fill(filler);
  rig.queue.push(points(20_000, 'during'));
  expect(rig.queue.flush()).toBe(false);
  expect(rig.queue.figures()).toMatchObject({
    pointsInMemory: 20_000,
    pointsOnDisk: 500,
    error: expect.stringContaining('full') as unknown,
  });
  rmSync(filler);
  rig.clock.advance(AGAIN_MS);
  expect(rig.queue.flush()).toBe(true);
  expect(rig.queue.figures()).toMatchObject({ pointsInMemory: 0, pointsOnDisk: 20_500, error: undefined });
  expect(delivered(rig)).toEqual([...numbers(500), ...numbers(20_000)]);
});

test('of a file system that is nearly full the rest is left to the agent itself', () => {
  run('mount', '-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', mount);
  stack.defer(() => run('umount', mount));
  const minFreeBytes = 4 * 1024 * 1024;
  const rig = stack.use(new QueueRig({ path: join(mount, 'queue.db'), minFreeBytes }));
  rig.queue.push(points(10, 'before'));
  expect(rig.queue.flush()).toBe(true);
  writeFileSync(join(mount, 'filler'), Buffer.alloc(5 * 1024 * 1024));
  rig.queue.push(points(10, 'during'));
  expect(rig.queue.flush()).toBe(false);
  expect(rig.queue.figures().error).toContain(`less than ${minFreeBytes} bytes are free`);
  expect(delivered(rig)).toEqual([...numbers(10), ...numbers(10)]);
  expect(rig.queue.flush()).toBe(true); // delivered points are still removed from the disk
});

// Regression: each reload and each stop lost the datapoints in memory without a message.
test('the end of a queue uses half of the space that stays free otherwise, and reports what does not fit', () => {
  run('mount', '-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', mount);
  stack.defer(() => run('umount', mount));
  const log = new RecordingLog();
  const rig = stack.use(new QueueRig({ path: join(mount, 'queue.db'), minFreeBytes: 4 * 1024 * 1024, log }));
  writeFileSync(join(mount, 'filler'), Buffer.alloc(5 * 1024 * 1024));
  rig.queue.push(points(10, 'during'));
  expect(rig.queue.flush()).toBe(false);
  rig.queue[Symbol.dispose]();
  rig.queue = rig.open();
  expect(rig.queue.figures().pointsOnDisk).toBe(10);
  writeFileSync(join(mount, 'rest'), Buffer.alloc(2 * 1024 * 1024));
  rig.queue.push(points(20, 'later'));
  rig.queue[Symbol.dispose]();
  expect(log.lines.at(-1)).toMatchObject({ level: 'error', fields: { lost: 20 } });
  rig.queue = rig.open();
  expect(delivered(rig)).toEqual(numbers(10));
});

test('a file system that is mounted read-only, and writable later', () => {
  mountExt4('rw');
  run('mount', '-o', 'remount,ro', mount);
  const rig = rigThere();
  rig.queue.push(points(10));
  expect(rig.queue.flush()).toBe(false);
  expect(rig.queue.figures()).toMatchObject({ pointsInMemory: 10, error: expect.any(String) as unknown });
  run('mount', '-o', 'remount,rw', mount);
  rig.clock.advance(AGAIN_MS);
  expect(rig.queue.flush()).toBe(true);
  expect(rig.queue.figures()).toMatchObject({ pointsOnDisk: 10, error: undefined });
  expect(delivered(rig)).toEqual(numbers(10));
});

// Regression: SIGBUS at each start of the agent on a small state partition that was full, by a file of SQLite that is mapped into memory.
test('a full file system whose blocks are smaller than a page of memory does not crash a process that opens the queue', () => {
  mountExt4('rw');
  const path = join(mount, 'queue.db');
  const rig = rigThere();
  rig.queue.push(points(500));
  expect(rig.queue.flush()).toBe(true);
  const aside = join(directory, 'as-after-a-cut');
  for (const suffix of ['', '-wal']) copyFileSync(`${path}${suffix}`, `${aside}${suffix}`);
  rig.queue[Symbol.dispose]();
  for (const suffix of ['', '-wal']) copyFileSync(`${aside}${suffix}`, `${path}${suffix}`);
  for (const filler of ['filler', 'rest']) {
    fill(join(mount, filler));
    run('sync', '--file-system', mount);
  }
  const open = `import { QueueDatabase } from '${databaseModule}'; console.log(QueueDatabase.open('${path}').lastNumber());`;
  const { signal, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', open], {
    encoding: 'utf8',
  });
  expect({ signal, stdout, stderr }).toMatchObject({ signal: null, stdout: '500\n' });
});

/** The kernel's reaction to a failing medium. */
test('a file system that turns read-only under the open queue, and is mounted again after a check', async () => {
  const device = mountExt4('errors=remount-ro');
  const rig = rigThere();
  rig.queue.push(points(500, 'before'));
  expect(rig.queue.flush()).toBe(true);
  writeFileSync(`/sys/fs/ext4/${basename(device)}/trigger_fs_error`, 'a test');
  rig.queue.push(points(10, 'during'));
  expect(rig.queue.flush()).toBe(false);
  expect(rig.queue.figures()).toMatchObject({ pointsInMemory: 10, error: expect.any(String) as unknown });
  run('umount', mount);
  // a namespace of another test may keep the mount for a moment
  await expect.poll(() => repaired(device), { timeout: 60_000, interval: 200 }).toBe(true);
  run('mount', device, mount);
  rig.clock.advance(AGAIN_MS);
  expect(rig.queue.flush()).toBe(true);
  expect(rig.queue.figures().error).toBeUndefined();
  expect(delivered(rig)).toEqual([...numbers(500), ...numbers(10)]);
});

test('a file that is damaged while it is open: readable data is saved, the rest is counted, and it continues', () => {
  const rig = stack.use(new QueueRig({ memoryPoints: 1_000_000, writePoints: 1_000_000 }));
  rig.queue.push(points(200_000));
  expect(rig.queue.flush()).toBe(true);
  const pages = Math.floor(statSync(rig.path).size / 4096);
  const file = openSync(rig.path, 'r+');
  writeSync(file, Buffer.alloc(40 * 4096, 0xa5), 0, 40 * 4096, Math.floor(pages / 2) * 4096);
  closeSync(file);
  const before = new Set(delivered(rig));
  const { dropped } = rig.queue.figures();
  expect(dropped.damaged).toBeGreaterThan(0);
  expect(before.size + dropped.damaged).toBe(200_000);
  expect(before.size).toBeGreaterThan(150_000);
  rig.queue.push(points(10, 'after'));
  expect(rig.queue.flush()).toBe(true);
  expect(delivered(rig)).toEqual(numbers(10));
  expect(readFileSync(`${rig.path}.damaged`).byteLength).toBeGreaterThan(0);
});

function fill(path: string): void {
  const file = openSync(path, 'w');
  try {
    for (;;) writeSync(file, Buffer.alloc(64 * 1024));
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error;
  } finally {
    closeSync(file);
  }
}

/** True after a check that ran: e2fsck(8) ends with 1 if errors were corrected, and with 8 while the device is in use. */
function repaired(device: string): boolean {
  const { status } = spawnSync('e2fsck', ['-fy', device]);
  return status === 0 || status === 1;
}
