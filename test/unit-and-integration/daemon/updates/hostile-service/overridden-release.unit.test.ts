import { beforeEach, describe, expect, test } from 'vitest';

import { SwappingService, byHand } from './swapping-service.ts';

let service: SwappingService;

/** 1.0 runs, then 2.0; an operator replaces it. */
beforeEach(async () => {
  service = new SwappingService();
  await service.cycles(2);
  service.offer('2', '2.0|second image');
  service.target = '2';
  await service.cycles(3);
});

// Regression: the same bytes under another ID undid the rollback of an operator.
describe('a release that an operator rolled back from', () => {
  test('does not return under another ID, until the operator forces it', async () => {
    await service.rollBack();
    expect(await service.cycles(2)).toContain('deferred manual-override 2.0');
    service.offer('2 again', '2.0|second image');
    service.target = '2 again';
    for (const flags of [byHand, { ...byHand, manual: false }])
      expect(await service.once(flags)).toBe('deferred manual-override 2.0');
    expect(service.gateway.running).toBe('1.0|first image');
    expect(await service.once({ ...byHand, force: true })).toBe('rebooting 2.0');
  });

  test('does not return after the service offered the previous one', async () => {
    await service.rollBack();
    service.target = '1';
    await service.cycles(2);
    service.target = '2';
    expect(await service.cycles(2)).toEqual(['deferred manual-override 2.0', 'deferred manual-override 2.0']);
  });

  test('is an ordinary one after the service installed another one', async () => {
    await service.rollBack();
    service.offer('3', '3.0|newest image');
    service.target = '3';
    await service.cycles(3);
    expect(service.gateway.running).toBe('3.0|newest image');
    service.target = '2';
    await service.cycles(3);
    expect(service.gateway.running).toBe('2.0|second image');
  });
});

describe('a release that the file of an operator replaced', () => {
  test('does not return under another ID', async () => {
    await service.installFile('4.0|image from a stick');
    service.offer('2 again', '2.0|second image');
    service.target = '2 again';
    await service.cycles(3);
    expect(service.gateway.running).toBe('4.0|image from a stick');
  });
});

// Regression: a release counted as installed after a trust list was delivered under its ID.
test('a release is installed although a list was delivered under its ID before', async () => {
  service.offer('3', 'LIST|7', 'trust-7');
  service.target = '3';
  await service.cycles(2);
  expect(service.listNumber).toBe(7);
  service.offer('3', '3.0|newest image');
  await service.cycles(3);
  expect(service.gateway.running).toBe('3.0|newest image');
  expect(await service.once()).toBe('up-to-date 3.0');
});
