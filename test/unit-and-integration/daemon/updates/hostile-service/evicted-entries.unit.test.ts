import { expect, test } from 'vitest';

import type { UpdateState } from '../../../../../src/update/journal/state.ts';
import { countFailure, mark } from '../../../../../src/update/journal/versions.ts';
import { SwappingService } from './swapping-service.ts';

const DAY = 96;

type Ledger = Pick<UpdateState, 'versions'>;

async function running(): Promise<SwappingService> {
  const service = new SwappingService();
  await service.cycles(2);
  return service;
}

// Regression: nine IDs of garbage pushed out the pause of a release, and the slot was written over and over.
test('the entry of a signed release outlives the entries of garbage, and a tried one outlives all others', () => {
  const fail = (ledger: Ledger, id: string, digest?: string): Ledger =>
    countFailure(ledger, { version: { id, name: id }, digest }, new Date(0).toISOString(), false);
  const tried = { version: { id: 'tried', name: '3.0' }, digest: 'sha256:tried' };
  let ledger: Ledger = mark(fail({ versions: [] }, 'signed', 'sha256:signed'), tried, { ran: true });
  for (let count = 0; count < 100; count += 1) ledger = fail(ledger, `garbage ${count}`);
  expect(ledger.versions.map(({ digest }) => digest)).toContain('sha256:signed');
  for (let count = 0; count < 100; count += 1) ledger = fail(ledger, `old ${count}`, `sha256:${count}`);
  expect(ledger.versions.map(({ digest }) => digest)).not.toContain('sha256:signed');
  expect(ledger.versions[0]?.digest).toBe('sha256:tried');
  expect(ledger.versions).toHaveLength(66);
});

// Regression: with garbage in between, one release ran 123 trials in 14 days.
test('a release that does not reach the service runs no more trials if the service offers garbage in between', async () => {
  const service = await running();
  service.offer('x', '2.0|second image');
  service.isUnreachable = true;
  let trials = 0;
  for (let check = 0; check < 14 * DAY; check += 1) {
    const id = check % 11 === 0 ? 'x' : `garbage ${check % 11}`;
    if (id !== 'x') service.offer(id, `FORGED ${id}`);
    service.target = id;
    if ((await service.once()) !== 'rebooting 2.0') continue;
    trials += 1;
    await service.once();
  }
  expect(trials).toBeGreaterThan(2);
  expect(trials).toBeLessThan(25);
});

// Regression: ten misnamed releases stopped every list and every release.
test.each([12, 100])('%d misnamed releases stop no trust list and no release', async (count) => {
  const service = await running();
  service.follow = { kind: 'updates', choice: { kind: 'newest' } };
  service.offer('list', 'LIST|7', 'trust-7');
  service.offer('n', '3.0|third image');
  service.list = ['list', 'n'];
  for (let number = 100; number < 100 + count; number += 1) {
    service.offer(`m${number}`, `trust-${number}|release`);
    service.list.push(`m${number}`);
  }
  await service.cycles(5 * DAY);
  expect(service.listNumber).toBe(7);
  expect(service.gateway.running).toContain('3.0|third image');
});

// Regression: 64 refused releases stopped all others for 30 days, and agent unblock named none of them.
test('refused releases stop no other release', async () => {
  const service = await running();
  for (let count = 0; count < 100; count += 1) {
    service.offer(`old ${count}`, `0.${count}|old release`, 'another name');
    service.target = `old ${count}`;
    expect(await service.once()).toMatch(/^name-mismatch/);
  }
  service.offer('x', '2.0|second image');
  service.target = 'x';
  expect(await service.cycles(2)).toEqual(['rebooting 2.0', 'installed 2.0']);
  expect((await service.state()).versions.length).toBeLessThan(70);
});

// Regression: during a paused download, each check read the headers of all misnamed lists, without a deadline for all.
test('a check during a paused download reads at most three headers, and each check reads other ones', async () => {
  const service = await running();
  service.follow = { kind: 'updates', choice: { kind: 'newest' } };
  service.offer('x', `2.0|image that is longer ${'.'.repeat(80)}`);
  service.cut.add('x');
  service.list = ['x'];
  await service.cycles(1);
  service.offer('list', 'LIST|7', 'trust-7');
  service.list.push('list');
  for (let number = 100; number < 110; number += 1) {
    service.offer(`m${number}`, 'FORGED', `trust-${number}`);
    service.list.push(`m${number}`);
  }
  for (let check = 1; check <= 3; check += 1) {
    await service.cycles(1);
    expect(service.opened.filter((id) => id.startsWith('m'))).toHaveLength(3 * check);
  }
  await service.cycles(2);
  expect(service.listNumber).toBe(7);
});
