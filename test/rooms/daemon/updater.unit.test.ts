import { describe, expect, test } from 'vitest';

import { Technician } from './technician.ts';

const signal = new AbortController().signal;
const byHand = { reboot: true, force: false, manual: true };

describe('a firmware that waits for a reboot by hand', () => {
  test('is given up by a rollback: nothing reboots, and it does not come again by itself', async () => {
    const technician = new Technician();
    await technician.update();
    const running = technician.gateway.running;
    technician.gateway.service.target = '2';
    const waiting = await (await technician.updater()).updateNow({ ...byHand, reboot: false }, () => {}, signal);
    expect(waiting).toMatchObject({ kind: 'reboot-required', version: 'version 2' });
    const given = await (await technician.updater()).rollback(byHand, () => {}, signal);
    expect(given).toEqual({ kind: 'rolled-back', version: 'version 2', reason: 'a person rolled it back' });
    technician.gateway.start();
    expect(technician.gateway.running).toBe(running);
    expect(await technician.update()).toMatchObject({ kind: 'held-back', code: 'quarantined' });
  });
});

describe('a trial that ends well', () => {
  test('is told as installed, not as nothing to do', async () => {
    const technician = new Technician();
    expect(await technician.update()).toEqual({ kind: 'installed', version: 'version 1' });
    expect(await technician.update()).toEqual({ kind: 'up-to-date', version: 'version 1' });
  });
});

describe('what a person installed', () => {
  // Seen by the kill tests: the service's version came back at the next look and replaced the person's file.
  test('stays, from a file after a rollback, until the service names another version', async () => {
    const technician = new Technician();
    await technician.update();
    technician.gateway.service.target = '2';
    await technician.update();
    expect(await technician.rollback()).toMatchObject({ kind: 'held-back', code: 'installed-by-hand' });
    expect(await technician.install('image from a stick')).toMatchObject({
      kind: 'held-back',
      code: 'installed-by-hand',
    });
    expect(technician.gateway.running).toBe('image from a stick');
    technician.gateway.service.target = '3';
    expect(await technician.update()).toMatchObject({ kind: 'installed', version: 'version 3' });
  });

  test('overrides nothing any more once the service names it, too', async () => {
    const technician = new Technician();
    await technician.update();
    technician.gateway.service.target = '2';
    await technician.update();
    await technician.rollback();
    technician.gateway.service.target = '1';
    expect(await technician.update()).toMatchObject({ kind: 'up-to-date', version: 'version 1' });
    expect(await technician.rollback()).toMatchObject({ kind: 'held-back', code: 'installed-by-hand' });
    expect(technician.gateway.running).toBe('image of version 2');
  });
});
