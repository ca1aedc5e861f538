import { execFile } from 'node:child_process';
import { chmod, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { promisify } from 'node:util';

import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest';

import type { StatusReport } from '../../../src/control/reports.ts';
import { systemClock } from '../../../src/system/time/clock.ts';
import { artifact, releaseKey } from '../../fakes/machine/demo-firmware.ts';
import { FileGateway, stop } from '../../fakes/machine/file-gateway.ts';
import { bufferContent, randomContent } from '../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../fakes/service/stand-in.ts';
import type { StandIn } from '../../fakes/service/stand-in.ts';
import type { VersionSetup } from '../../fakes/service/world.ts';

const MIB = 1024 * 1024;
/** Slow enough for a request during the transfer, and for a checkpoint before its end. */
const slowly = { kind: 'drip', bytes: 64 * 1024, everyMs: 25 } as const;
/** Versions of the service, made once. */
let versions: readonly VersionSetup[];

let stack: AsyncDisposableStack;
let service: StandIn;
let gateway: FileGateway;

beforeAll(async () => {
  const content = Buffer.from(randomContent(24 * MIB, 3).read(0, 24 * MIB));
  versions = [
    { id: '0', name: '0', firmware: bufferContent(await artifact('0', Buffer.from('healthy 0'))) },
    { id: '2', name: '2', firmware: bufferContent(await artifact('2', content)) },
  ];
});
beforeEach(async () => {
  stack = new AsyncDisposableStack();
  service = stack.use(await startStandIn({ versions, targetVersionId: '0' }));
  const options = { image: Buffer.from('healthy 0'), slotBytes: 32 * MIB, trustedKey: releaseKey.publicPem };
  gateway = stack.use(await FileGateway.create({ ...options, serviceUrl: service.url }));
});
afterEach(async () => {
  await stack.disposeAsync();
});

async function status(): Promise<StatusReport> {
  return (await gateway.json('status')) as StatusReport;
}

async function untilStatus(isSo: (report: StatusReport) => boolean): Promise<StatusReport> {
  for (;;) {
    const report = await status();
    if (isSo(report)) return report;
    await systemClock.sleep(250, AbortSignal.timeout(60_000));
  }
}

test('without a daemon anyone can read status; an interrupted update shows its progress and how it resumes', async () => {
  service.world.targetVersionId = '2';
  service.fail({ operation: 'firmware', fault: slowly });
  const updating = gateway.spawn(['--update-now']);
  const busy = await untilStatus(({ activity }) => activity !== undefined);
  expect(busy).toMatchObject({
    state: 'busy',
    activity: { process: expect.stringContaining('agent --update-now') as unknown },
  });
  expect(await gateway.run('status', '--exit-code')).toMatchObject({ exitCode: 0 });
  expect(await gateway.run('mcu', 'list')).toMatchObject({ exitCode: 0 });
  expect(await gateway.run('history')).toMatchObject({ exitCode: 0 });
  await untilStatus(({ downloaded }) => (downloaded?.bytes ?? 0) > 0);
  await stop(updating, 'SIGKILL');
  expect(await status()).toMatchObject({ state: 'interrupted', idleCode: 'interrupted', problems: ['no-daemon'] });
  const page = (await gateway.run('status')).stdout.replaceAll(/\s+/g, ' ');
  expect(page).toMatch(/The download of 2 to slot B was interrupted at \d+%\. To do agent --update-now/);
  expect(page).not.toContain('Busy');
  expect(await gateway.run('status', '--exit-code')).toMatchObject({ exitCode: 1 });
}, 120_000);

test('reports ok only while a daemon follows the service; a rejected file is an event', async () => {
  await gateway.run('--update-now');
  gateway.boot();
  await gateway.run('--update-now');
  expect(await status()).toMatchObject({ state: 'needs-attention', problems: ['no-daemon'], idleCode: 'no-daemon' });
  expect((await gateway.run('status')).stdout).toContain('The daemon is not running');
  const file = join(gateway.directory, 'foreign.img');
  await writeFile(file, 'an image of somebody');
  expect(await gateway.run('install', file)).toMatchObject({ exitCode: 77 });
  const after = await status();
  expect(after).toMatchObject({ problems: ['no-daemon'], lastOutcome: { outcome: 'refused', by: 'file' } });
  expect(after).toMatchObject({
    running: { version: '0', slot: 'B', isOnTrial: false, isFactory: false },
    slotStates: {
      A: { bootable: true, bootsNext: false, isFactory: true },
      B: { bootable: true, bootsNext: true, version: '0' },
    },
  });
  await gateway.startDaemon();
  const well = await untilStatus(({ state, activity }) => state !== 'busy' && activity === undefined);
  expect(well).toMatchObject({ state: 'ok', problems: [] });
  expect(await gateway.run('status', '--exit-code')).toMatchObject({ exitCode: 0 });
  expect((await gateway.run('status')).stdout).toMatch(/All is well/);
}, 120_000);

// Regression: with a stopped daemon (kill -STOP), status showed nothing for 151 s; a hold that had failed was in force
// when it continued.
test('an unresponsive daemon is bypassed, is a problem, and does not execute failed requests later', async () => {
  const daemon = await gateway.startDaemon();
  await untilStatus(({ activity }) => activity === undefined);
  daemon.kill('SIGSTOP');
  try {
    const [told, history, held] = await Promise.all([
      gateway.run('status', '--json', '--exit-code'),
      gateway.run('history'),
      gateway.run('hold', '4h'),
    ]);
    expect(told.exitCode).toBe(1);
    expect(JSON.parse(told.stdout)).toMatchObject({
      state: 'needs-attention',
      daemon: false,
      problems: ['daemon-unresponsive'],
    });
    expect(told.stderr).toContain('the daemon is not responding');
    expect(history.exitCode).toBe(0);
    expect(held.exitCode).toBe(75);
  } finally {
    daemon.kill('SIGCONT');
  }
  const after = await untilStatus(({ daemon: answers }) => answers);
  expect(after.problems).toEqual([]);
  expect(after.hold).toBeUndefined();
}, 120_000);

test('a daemon without its sockets is unresponsive, neither absent nor busy', async () => {
  await gateway.startDaemon();
  await untilStatus(({ activity }) => activity === undefined);
  for (const name of ['root.sock', 'control.sock', 'status.sock']) {
    await rm(join(gateway.directory, 'run', name));
    await mkdir(join(gateway.directory, 'run', name)); // so that the daemon cannot put it back before we have looked
  }
  const told = await gateway.run('status', '--json');
  expect(JSON.parse(told.stdout)).toMatchObject({
    state: 'needs-attention',
    daemon: false,
    problems: ['daemon-unresponsive'],
  });
  expect((await gateway.run('status')).stdout).toContain('the daemon is not responding');
  expect((await gateway.run('doctor')).stdout.replaceAll(/\s+/g, ' ')).toContain(
    'the daemon runs but is not responding',
  );
}, 120_000);

// Regression: "cannot close /var/lib/thing-agent: EACCES", and an unknown serial number.
test('a user without permission and without a daemon gets a clear message', async () => {
  await mkdir(join(gateway.directory, 'state'), { recursive: true });
  await chmod(join(gateway.directory, 'state'), 0o700);
  await chmod(gateway.directory, 0o711);
  await chmod(gateway.configFile, 0o644);
  const main = join(import.meta.dirname, '../../../src/main.ts');
  const ordinary = ['--reuid=65534', '--regid=65534', '--clear-groups', '--', process.execPath, main];
  const env = { PATH: process.env['PATH'] ?? '' };
  const asked = promisify(execFile)('setpriv', [...ordinary, '--config', gateway.configFile, 'status'], { env });
  const refused = (await asked.catch((error: unknown) => error)) as { readonly code: number; readonly stderr: string };
  expect(refused.stderr.replaceAll(/\s+/g, ' ')).toMatch(
    /^agent: this user may not look into .*\(state-not-permitted\) the same with sudo/,
  );
  expect(refused.code).toBe(77);
});
