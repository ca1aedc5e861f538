import { describe, expect, test } from 'vitest';

import { Technician } from '../../daemon/updates/technician.ts';

const bySchedule = { reboot: true, force: false, manual: false };

/** Checks repeatedly, while the service offers another version at each check. Returns the booted ones. */
async function bootsIn(looks: number, target: (look: number) => string, falls = false): Promise<readonly string[]> {
  const technician = new Technician();
  await technician.update();
  const booted: string[] = [];
  for (let look = 0; look < looks; look += 1) {
    technician.gateway.service.target = target(look);
    const outcome = await technician.updateOnce(bySchedule).catch(() => ({ kind: 'failed' as const }));
    if (outcome.kind !== 'rebooting' || !('version' in outcome)) continue;
    if (outcome.goesBack !== true) booted.push(outcome.version);
    if (falls) technician.gateway.reboot();
    else technician.gateway.start();
    if (falls) technician.gateway.reboot();
  }
  return booted;
}

const contents = (booted: readonly string[]) => booted.map((version) => version.replace(/#.*/, ''));

// Regression: one unhealthy release under a new id after each rollback was tried 17 times in 75 s.
describe('a service that gives the same content a new id at each check', () => {
  test('causes one trial of what is unhealthy', async () => {
    expect(contents(await bootsIn(60, (look) => `bad#${look}`))).toEqual(['version bad']);
  });

  test('causes as many trials of a version that does not start as under one id, whatever it offers in between', async () => {
    const underOne = await bootsIn(60, () => '2', true);
    expect(underOne).toHaveLength(6);
    const underMany = await bootsIn(120, (look) => `2#${look}`, true);
    expect(underMany.length).toBeLessThanOrEqual(6);
    const amongGarbage = await bootsIn(240, (look) => (look % 12 === 0 ? `2#${look}` : `evil#${look}`), true);
    expect(amongGarbage.length).toBeLessThanOrEqual(6);
    const good = await bootsIn(120, (look) => (look % 2 === 0 ? `2#${look}` : `bad#${look}`));
    expect(contents(good).filter((version) => version === 'version bad')).toHaveLength(1);
  });

  test('has two versions installed by turns no more often than under their ids', async () => {
    const day = 96;
    const underTwo = await bootsIn(5 * day, (look) => (look % 2 === 0 ? '2' : '3'));
    const underMany = await bootsIn(5 * day, (look) => (look % 2 === 0 ? `2#${look}` : `3#${look}`));
    expect(underMany.length).toBeLessThanOrEqual(underTwo.length);
    expect(underMany.length).toBeLessThan(20);
  });

  test('does not evade an operator who cancelled it', async () => {
    const technician = new Technician();
    await technician.update();
    technician.gateway.service.target = '2';
    expect(await technician.updateOnce({ ...bySchedule, reboot: false })).toMatchObject({ kind: 'reboot-required' });
    await (await technician.updater()).cancel(() => {}, AbortSignal.timeout(10_000));
    for (const target of ['2', '2#1', '2#2']) {
      technician.gateway.service.target = target;
      expect(await technician.updateOnce(bySchedule)).toMatchObject({ kind: 'deferred', code: 'cancelled' });
    }
    expect(await technician.update()).toEqual({ kind: 'installed', version: 'version 2#2' });
  });
});
