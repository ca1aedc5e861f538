import { describe, expect, test } from 'vitest';

import { SwappingService, byHand } from './swapping-service.ts';

const long = (name: string): string => `${name}|image that is longer than a checkpoint ${'.'.repeat(80)}`;

async function install(service: SwappingService): Promise<void> {
  await service.cycles(2);
  expect(service.gateway.running).toBe('1.0|first image');
}

/** The operator cancelled 2.1 during its transfer. */
async function cancel(service: SwappingService): Promise<void> {
  service.offer('c', long('2.1'));
  service.target = 'c';
  service.cut.add('c');
  await service.once();
  await (await service.updater()).cancel(() => {}, AbortSignal.timeout(10_000));
}

/** The operator's attempt at 2.0, whose transfer is interrupted. */
async function interrupt(service: SwappingService, flags: typeof byHand): Promise<void> {
  service.offer('x', long('2.0'));
  service.target = 'x';
  service.cut.add('x');
  expect(await service.once(flags)).toMatch(/^service-silent/);
  service.cut.clear();
}

// Regression: the service swapped the content behind an attempt that an operator had ordered.
describe('an interrupted attempt of an operator', () => {
  test.each(['1.9', '2.0'])('forces no blocked release under its ID, offered as %s', async (name) => {
    const service = new SwappingService();
    await install(service);
    service.offer('b', `${long('1.9')} bad`);
    service.target = 'b';
    await service.cycles(4);
    expect((await service.state()).versions.at(-1)).toMatchObject({ version: { name: '1.9' }, bad: {} });
    await interrupt(service, { ...byHand, force: true });
    service.offer('x', `${long('1.9')} bad`, name);
    for (const end of await service.cycles(4)) expect(end).toMatch(/^(quarantined|deferred|name-mismatch)/);
  });

  test('leaves a release cancelled that the service offers under its ID', async () => {
    const service = new SwappingService();
    await install(service);
    await cancel(service);
    await interrupt(service, byHand);
    service.offer('x', long('2.1'));
    for (const end of await service.cycles(10)) expect(end).toBe('deferred cancelled 2.1');
  });

  // Regression: the order was kept without a digest, and applied to whatever the service sent later.
  test('that read no header orders no content of the service', async () => {
    const service = new SwappingService();
    await install(service);
    service.offer('b', '1.9|bad image');
    service.target = 'b';
    await service.cycles(4);
    service.offer('x', '1.9|fixed image');
    service.target = 'x';
    service.isSilent = true;
    expect(await service.once({ ...byHand, force: true })).toMatch(/^service-silent/);
    service.isSilent = false;
    service.offer('x', '1.9|bad image');
    for (const end of await service.cycles(4)) expect(end).toMatch(/^(quarantined|deferred)/);
  });

  test('that read no header leaves a release cancelled that the service sends later', async () => {
    const service = new SwappingService();
    await install(service);
    await cancel(service);
    service.offer('x', long('2.1'));
    service.target = 'x';
    service.isSilent = true;
    await service.once(byHand);
    service.isSilent = false;
    for (const end of await service.cycles(4)) expect(end).toBe('deferred cancelled 2.1');
  });

  test('waits for a hold, and resumes after it', async () => {
    const service = new SwappingService();
    await install(service);
    await interrupt(service, { ...byHand, force: true });
    await (await service.updater()).hold({ reason: 'the line is repaired' });
    expect(await service.cycles(2)).toEqual(['deferred on-hold 2.0', 'deferred on-hold 2.0']);
    await (await service.updater()).resume();
    await service.cycles(2);
    expect(service.gateway.running).toBe(long('2.0'));
  });
});
