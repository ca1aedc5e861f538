import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { controlClient } from '../../../../src/control/client/control-client.ts';
import type { HistoryReport } from '../../../../src/control/history.ts';
import { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import { bufferContent } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import type { StandIn } from '../../../fakes/service/stand-in.ts';

const someText: unknown = expect.any(String);
const sizeBytes = 300_000;

async function begin(stack: AsyncDisposableStack): Promise<{ service: StandIn; gateway: FileGateway }> {
  const content = (text: string): Buffer => Buffer.alloc(sizeBytes, text);
  const versions = ['healthy 1', 'unhealthy 2'].map((text, index) => ({
    id: String(index + 1),
    name: text,
    firmware: bufferContent(content(text)),
  }));
  const service = stack.use(await startStandIn({ versions }));
  const image = content('healthy 1');
  const gateway = stack.use(await FileGateway.create({ serviceUrl: service.url, image, slotBytes: 400_000 }));
  return { service, gateway };
}

async function historyOf(gateway: FileGateway): Promise<HistoryReport['attempts']> {
  return ((await gateway.json('history')) as HistoryReport).attempts;
}

test('lists attempts across restarts, with fetched, written and reused bytes', async () => {
  await using stack = new AsyncDisposableStack();
  const { service, gateway } = await begin(stack);
  service.world.targetVersionId = '1';
  await gateway.run('--update-now');
  gateway.boot();
  await gateway.run('--update-now');
  service.world.targetVersionId = '2';
  await gateway.run('--update-now');
  gateway.boot();
  await gateway.run('--update-now');
  gateway.boot();
  await gateway.run('--update-now');
  const attempts = await historyOf(gateway);
  expect(attempts).toMatchObject([
    { version: 'healthy 1', by: 'service', manual: true, outcome: 'installed' },
    { version: 'unhealthy 2', from: 'healthy 1', outcome: 'rolled-back', reason: someText },
  ]);
  for (const { fetchedBytes = 0, writtenBytes = 0, reusedBytes = 0, durationSeconds } of attempts) {
    expect(fetchedBytes).toBeGreaterThan(sizeBytes);
    expect(writtenBytes + reusedBytes).toBe(sizeBytes);
    expect(durationSeconds).toBeGreaterThanOrEqual(0);
  }
  expect(attempts[1]?.steps.map(({ step }) => step)).toEqual([
    'staging-started',
    'slot-opened',
    'staged',
    'trial-armed',
    'health-check-started',
    'rollback-started',
    'rolled-back',
  ]);
  const page = (await gateway.run('history')).stdout;
  expect(page).toContain('healthy 1 to unhealthy 2: rolled back after');
  const log = async (...words: readonly string[]): Promise<string> =>
    (await gateway.run('log', ...words)).stdout.replaceAll(/\(\d+ s ago\)/g, '');
  const story = await log(attempts[1]?.attempt.slice(0, 8) ?? '');
  expect(story).toMatch(/verified[^]*on trial, health checks running[^]*rolled back/);
  expect(await log('last')).toBe(story);
  expect((await gateway.run('log', 'nonsense')).exitCode).toBe(64);
  expect(await log()).toBe(story);
}, 120_000);

test('a member of the group may read it, and a history that cannot be read ends neither daemon nor attempt', async () => {
  await using stack = new AsyncDisposableStack();
  const { service, gateway } = await begin(stack);
  const file = join(gateway.directory, 'state/history.json');
  await mkdir(file, { recursive: true, mode: 0o700 });
  service.world.targetVersionId = '1';
  expect(await gateway.run('--update-now', '--no-reboot')).toMatchObject({ exitCode: 0 });
  await gateway.startDaemon();
  expect(await gateway.json('status')).toMatchObject({ daemon: true, phase: 'staged' });
  expect(await gateway.run('history')).toMatchObject({ exitCode: 74 });
  await rm(file, { recursive: true });
  await writeFile(file, 'no history');
  const member = controlClient(join(gateway.directory, 'run/status.sock'));
  const { attempts } = await member.history({}, AbortSignal.timeout(60_000));
  expect(attempts).toMatchObject([{ version: 'healthy 1', inProgress: true }]);
}, 120_000);
