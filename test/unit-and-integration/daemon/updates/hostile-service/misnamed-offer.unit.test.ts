import { expect, test } from 'vitest';

import { byHand, SwappingService } from './swapping-service.ts';

async function running(): Promise<SwappingService> {
  const service = new SwappingService();
  await service.cycles(2);
  return service;
}

// Regression: the service offered a cancelled version once under the name of a list, and then installed it.
test('a cancelled version stays cancelled, whatever the service calls its ID in between', async () => {
  const service = await running();
  service.offer('c', '2.1|second image');
  service.target = 'c';
  service.cut.add('c');
  await service.once();
  await (await service.updater()).cancel(() => {}, AbortSignal.timeout(10_000));
  service.cut.clear();
  expect(await service.once()).toBe('deferred cancelled 2.1');
  service.offer('c', '2.1|second image', 'trust-999');
  expect(await service.once()).toMatch(/^trust-list-mismatch/);
  service.offer('c', '2.1|second image');
  expect(await service.cycles(2)).toEqual(Array(2).fill('deferred cancelled 2.1'));
});

// Regression: other content under the ID of a release that an operator rolled back was never installed.
test('other content under the ID of a replaced release does not count as replaced', async () => {
  const service = await running();
  service.offer('2', '2.0|second image');
  service.target = '2';
  await service.cycles(2);
  await service.rollBack();
  await service.cycles(1);
  service.offer('2', '3.0|third image', 'trust-999');
  await service.once();
  service.offer('good', '3.0|third image');
  service.target = 'good';
  expect(await service.cycles(2)).toEqual(['rebooting 3.0', 'installed 3.0']);
});

// Regression: 128 contents under the ID of a replaced release pushed out the entry of a release that had failed its trial.
test('a release that failed its trial stays blocked, whatever the service offers', async () => {
  const service = await running();
  service.offer('b', '1.9|bad image');
  service.target = 'b';
  await service.cycles(3);
  service.offer('2', '2.0|second image');
  service.target = '2';
  await service.cycles(2);
  await service.rollBack();
  for (let count = 0; count < 200; count += 1) {
    service.offer('2', `0.${count}|old`, `trust-${1000 + count}`);
    await service.once();
  }
  service.offer('b2', '1.9|bad image');
  service.target = 'b2';
  expect(await service.cycles(3)).toEqual(
    expect.arrayContaining([expect.stringMatching(/^quarantined/), 'deferred quarantined 1.9']),
  );
  service.offer('n', '5.0|new image');
  service.target = 'n';
  expect(await service.cycles(2)).toEqual(['rebooting 5.0', 'installed 5.0']);
});

// Regression: three checks with a wrong name blocked the release for 30 days, also after it had been renamed.
test.each(['a', 'b'])('a release can be installed once it has its own name, under the ID %s', async (id) => {
  const service = await running();
  service.offer('a', '2.0|second image', '2.00');
  service.target = 'a';
  await service.cycles(12);
  expect(await service.once(byHand)).toBe('deferred attempts-exhausted 2.00');
  service.offer(id, '2.0|second image');
  service.target = id;
  expect(await service.cycles(2)).toEqual(['rebooting 2.0', 'installed 2.0']);
});
