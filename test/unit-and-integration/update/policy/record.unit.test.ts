import { expect, test } from 'vitest';

import { recordDiffers } from '../../../../src/update/policy/update-checker.ts';
import { Technician } from '../../daemon/updates/technician.ts';

const { signal } = new AbortController();
const byHand = { reboot: true, force: false, manual: true };

async function committed(): Promise<Technician> {
  const technician = new Technician();
  technician.gateway.service.target = '2';
  await technician.update();
  expect(technician.gateway.service).toMatchObject({ current: '2', switches: ['2'] });
  return technician;
}

test('a service with another version in its record is notified once more', async () => {
  const technician = await committed();
  const { service } = technician.gateway;
  service.current = '1';
  expect(await technician.updateOnce(byHand)).toMatchObject({ kind: 'up-to-date' });
  expect(service).toMatchObject({ current: '2', switches: ['2', '2'] });
  await technician.updateOnce(byHand);
  expect(service.switches).toEqual(['2', '2']);
});

test('what the service offers is an order, and is not overwritten', async () => {
  const technician = await committed();
  const { service } = technician.gateway;
  service.current = 'bad';
  service.target = 'bad';
  await technician.update();
  await technician.updateOnce({ ...byHand, manual: false });
  expect(service).toMatchObject({ current: 'bad', switches: ['2'] });
});

test('a release from a file, unknown to the service, is not compared', async () => {
  const technician = await committed();
  await technician.install('image from a stick', false, 'manual');
  technician.gateway.start();
  await technician.update();
  const { service } = technician.gateway;
  service.current = '1';
  await technician.updateOnce({ ...byHand, manual: false });
  expect(service).toMatchObject({ current: '1', switches: ['2'] });
});

test('a version that an operator overrides stays overridden', async () => {
  const technician = await committed();
  const { service, bootloader } = technician.gateway;
  service.target = '3';
  await technician.update();
  await (await technician.updater()).rollback(byHand, () => {}, signal);
  technician.gateway.start();
  await technician.update();
  const { journal } = await technician.gateway.ports();
  const { installed } = journal.state;
  expect(installed).toMatchObject({ version: { id: '2' }, overrides: '3' });
  service.current = '1';
  await technician.updateOnce(byHand);
  expect(service.current).toBe('2');
  expect((await technician.gateway.ports()).journal.state.installed).toEqual(installed);
  expect(bootloader.booted).toBe(installed?.slot);
});

test('an unavailable service causes no failure', async () => {
  const technician = await committed();
  const ports = await technician.gateway.ports();
  const { service } = technician.gateway;
  service.failures = 1;
  const look = { offered: undefined, plan: { kind: 'nothing-offered' } } as const;
  expect(await recordDiffers(look, { ports, service }, signal)).toBe(false);
  expect(await recordDiffers(look, { ports, service }, signal)).toBe(false);
  service.current = '1';
  expect(await recordDiffers(look, { ports, service }, signal)).toBe(true);
});
