import { describe, expect, test } from 'vitest';

import { AgentError } from '../../../src/system/errors.ts';
import { StorageError } from '../../../src/system/files/durable-file.ts';
import type { Journal } from '../../../src/update/journal/journal.ts';
import type { Outcome } from '../../../src/update/journal/state.ts';
import { recoverUpdate } from '../../../src/update/trial/recovery.ts';
import { update } from '../../../src/update/update.ts';
import { Gateway } from '../../fakes/machine/memory/gateway.ts';
import { MemoryService } from '../../fakes/machine/memory/memory-service.ts';
import { digestOfPlain, plainFirmware, openPlainFirmware } from './plain-firmware.ts';
import { blockedIn } from './version-entries.ts';

const OLD = 'old image, 20 bytes.';
const NEW = 'new image, which is a little longer than the old one was.';
const BAD = 'bad image, boots but is not healthy.......';
const DEAD = 'dead image, never starts the agent........';

function serviceWith(current = '1'): MemoryService {
  const firmware = new Map([
    ['1', plainFirmware(OLD)],
    ['2', plainFirmware(NEW)],
    ['bad', plainFirmware(BAD)],
    ['bad under another name', plainFirmware(BAD)],
    ['dead', plainFirmware(DEAD)],
    ['evil', plainFirmware(NEW, 'evil...:')],
  ]);
  return new MemoryService(firmware, current);
}

function gatewayWith(service = serviceWith(), seed = 1): Gateway {
  const complaint = (content: string): string | undefined => {
    if (content.startsWith('bad')) return 'the application does not answer';
    return content.startsWith('dead') ? 'hang' : undefined;
  };
  const gateway = new Gateway({
    service,
    openFirmware: openPlainFirmware,
    slots: { A: OLD, B: '' },
    seed,
    complaint,
  });
  gateway.start();
  return gateway;
}

describe('an update', () => {
  test('ends with the new version committed, switched and reported once', async () => {
    const gateway = gatewayWith();
    gateway.service.target = '2';
    expect(await gateway.run()).toEqual({ kind: 'up-to-date', version: 'version 2' });
    expect(gateway.running).toBe(NEW);
    expect(gateway.service.switches).toEqual(['2']);
    expect(gateway.service.reports.map(({ version, outcome }) => [version, outcome])).toEqual([
      ['version 2', 'installed'],
    ]);
  });

  // Regression: on a nearly full state disk each check transferred the image up to the point where the journal had to
  // grow.
  test('does not begin if the state has no space for its files', async () => {
    const gateway = gatewayWith();
    const ports = await gateway.ports();
    const full = new StorageError('write', 'journal.json', Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' }));
    const probe = async (roomBytes = 0): Promise<void> => {
      if (roomBytes > 0) throw full;
    };
    const { journal } = ports;
    const narrow: Journal = {
      ...journal,
      state: journal.state,
      probe,
      append: async (event) => journal.append(event),
    };
    const order = { version: { id: '2', name: 'two' }, by: 'service', reboot: true, force: false } as const;
    const source = gateway.service.firmware('2');
    const begun = update({ ...order, source }, { ...ports, journal: narrow });
    await expect(begun).rejects.toMatchObject({ code: 'disk-full' });
    expect(journal.state.phase.kind).toBe('idle');
    expect(gateway.slots.content('B')).toBe('');
  });

  test('boots the new slot once on trial and keeps the old one bootable until commit', async () => {
    const gateway = gatewayWith();
    gateway.service.target = '2';
    await gateway.look();
    expect(gateway.bootloader.bootable).toEqual(['B', 'A']);
    gateway.start();
    expect(gateway.bootloader.bootable).toEqual(['A']);
    expect((await gateway.settle()).kind).toBe('installed');
    expect(gateway.bootloader.bootable[0]).toBe('B');
  });

  test('rolls back an unhealthy version, reports the reason and does not try it again', async () => {
    const gateway = gatewayWith();
    gateway.service.target = 'bad';
    expect(await gateway.run()).toMatchObject({ kind: 'deferred', code: 'quarantined' });
    expect(gateway.running).toBe(OLD);
    expect(gateway.service.switches).toEqual([]);
    const [report] = gateway.service.reports;
    expect(report).toMatchObject({
      outcome: 'rolled-back',
      code: 'unhealthy',
      reason: 'the application does not answer',
    });
  });

  test('names the slot of a rollback, and the reason', async () => {
    const gateway = gatewayWith();
    gateway.service.target = 'bad';
    await gateway.look();
    gateway.start();
    const ports = { ...(await gateway.ports()), machine: { bootId: async () => 'now', reboot: async () => {} } };
    expect(await recoverUpdate(ports)).toEqual({
      kind: 'rebooting',
      version: 'version bad',
      slot: 'A',
      reason: 'the application does not answer',
      goesBack: true,
    });
  });

  // Regression: two power losses in two trials blocked a good release for ever.
  test('that the power cut off in each of its trials is tried again, and installed', async () => {
    const gateway = gatewayWith();
    gateway.service.target = '2';
    for (let trial = 0; trial < 2; trial += 1) {
      expect(await gateway.look()).toMatchObject({ kind: 'rebooting' });
      gateway.start();
      gateway.reboot();
    }
    expect(await gateway.settle()).toMatchObject({ kind: 'rolled-back' });
    expect((await gateway.journal()).state).toMatchObject({ versions: [{ failed: 1, gaveUp: 1 }] });
    expect(blockedIn((await gateway.journal()).state)).toEqual([]);
    expect(await gateway.run()).toEqual({ kind: 'up-to-date', version: 'version 2' });
    expect(gateway.running).toBe(NEW);
  });

  test('whose slot never starts the agent falls back as often as a version may fail, and is quarantined by digest', async () => {
    const gateway = gatewayWith();
    gateway.service.target = 'dead';
    expect(await gateway.run()).toMatchObject({ kind: 'deferred', code: 'quarantined' });
    expect(gateway.running).toBe(OLD);
    expect(blockedIn((await gateway.journal()).state)[0]?.digest).toBe(digestOfPlain(DEAD));
    expect(gateway.bootloader.armed).toHaveLength(6);
  });

  // Regression on the real program with a boot handler that counts: power cuts and fallbacks together used up the old slot.
  test('falls back to a slot that has all its boots again, however many power cuts came before', async () => {
    const gateway = gatewayWith();
    gateway.service.target = 'dead';
    expect(await gateway.look()).toMatchObject({ kind: 'rebooting' });
    gateway.reboot();
    gateway.reboot();
    expect(await gateway.settle()).toMatchObject({ kind: 'rebooting' });
    gateway.reboot();
    gateway.reboot();
    expect(await gateway.run()).toMatchObject({ kind: 'deferred', code: 'quarantined' });
    expect(gateway.running).toBe(OLD);
  });

  test('after a quarantined version installs the next one that the service names', async () => {
    const gateway = gatewayWith();
    gateway.service.target = 'bad';
    await gateway.run();
    gateway.service.target = '2';
    expect(await gateway.run()).toMatchObject({ kind: 'up-to-date' });
    expect(gateway.running).toBe(NEW);
  });

  // Regression: a service that changed the id after each rollback caused 17 trials of one release in 75 s.
  test('does not try a failed release again under another id', async () => {
    const gateway = gatewayWith();
    gateway.service.target = 'bad';
    await gateway.run();
    const { armed } = gateway.bootloader;
    expect(armed).toHaveLength(1);
    for (const target of ['bad under another name', 'bad', 'bad under another name']) {
      gateway.service.target = target;
      await expect(gateway.look()).rejects.toMatchObject({ code: 'quarantined' });
      expect(await gateway.look()).toMatchObject({ kind: 'deferred', code: 'quarantined' });
    }
    expect(armed).toHaveLength(1);
    expect(gateway.running).toBe(OLD);
    const journal = await gateway.journal();
    expect(blockedIn(journal.state)).toMatchObject([{ digest: digestOfPlain(BAD) }]);
    const [release] = blockedIn(journal.state);
    if (release !== undefined) await journal.append({ type: 'unblocked', release });
    expect(await gateway.run()).toMatchObject({ kind: 'deferred', code: 'quarantined' });
    expect(armed).toHaveLength(2);
  });

  test('signed by an unknown key leaves the other slot unchanged', async () => {
    const gateway = gatewayWith();
    gateway.service.target = '2';
    await gateway.run();
    gateway.service.target = 'evil';
    await expect(gateway.look()).rejects.toMatchObject({ code: 'signature-invalid' });
    expect(gateway.slots.content('A')).toBe(OLD);
    expect(gateway.bootloader.bootable).toEqual(['B', 'A']);
    await gateway.look().catch(() => undefined);
    await gateway.look().catch(() => undefined);
    expect(await gateway.look()).toMatchObject({ kind: 'deferred', code: 'attempts-exhausted' });
    expect(gateway.service.reports.at(-1)).toMatchObject({ outcome: 'refused', code: 'signature-invalid' });
  });

  test('whose transfer breaks goes on at its checkpoint, as the same attempt', async () => {
    const gateway = gatewayWith();
    gateway.service.target = '2';
    gateway.service.cutTransfersAfter = 32;
    await expect(gateway.look()).resolves.toMatchObject({ kind: 'rebooting' });
    gateway.start();
    await gateway.run();
    expect(gateway.running).toBe(NEW);
    expect(gateway.service.reports).toHaveLength(1);
  });

  test('that the boot environment does not take is undone and reported', async () => {
    const gateway = gatewayWith();
    gateway.service.target = '2';
    gateway.bootloader.broken = true;
    await expect(gateway.look()).rejects.toMatchObject({ code: 'boot-environment-unwritable' });
    gateway.bootloader.broken = false;
    expect(gateway.slots.content('B')).toBe('');
    expect(await gateway.run()).toMatchObject({ kind: 'up-to-date' });
  });

  test('is switched at the service later if the service is unavailable now', async () => {
    const gateway = gatewayWith();
    gateway.service.target = '2';
    await gateway.look();
    gateway.start();
    gateway.service.failures = 2;
    await gateway.run().catch(() => undefined);
    expect(gateway.service.switches).toEqual([]);
    await gateway.run();
    expect(gateway.service.switches).toEqual(['2']);
  });
});

describe('a power cut', () => {
  const targets = ['2', 'bad', 'dead', 'evil'];
  test.each(targets)(
    'after any step of an update to %s ends in exactly old or new, without an operator',
    async (target) => {
      for (let steps = 1; ; steps += 1) {
        const gateway = gatewayWith(serviceWith(), steps);
        gateway.service.target = target;
        gateway.power.cutAfter(steps);
        await untilItFails(gateway);
        if (!gateway.power.isOut) break;
        gateway.reboot();
        expect([OLD, NEW, BAD]).toContain(gateway.running);
        await untilItFails(gateway);
        expect(gateway.running, `cut after ${gateway.power.history.join(', ')}`).toBe(target === '2' ? NEW : OLD);
        expectOneEndPerAttempt(gateway.service.reports);
      }
    },
  );
});

/** The service may take a report and the gateway not learn of it: then the same report comes again, never another. */
function expectOneEndPerAttempt(reports: readonly Outcome[]): void {
  expect(reports).not.toHaveLength(0);
  const distinct = new Set(reports.map((report) => JSON.stringify(report)));
  expect(distinct.size).toBe(new Set(reports.map((report) => report.attempt)).size);
}

async function untilItFails(gateway: Gateway): Promise<void> {
  for (let round = 0; round < 10 && !gateway.power.isOut; round += 1) {
    try {
      const end = await gateway.run();
      if (end.kind !== 'settled') return;
    } catch (error) {
      if (error instanceof Error && error.name === 'AssertionError') throw error;
    }
  }
}

test('a service that sends nonsense for a while does not use up the attempts of a version', async () => {
  const gateway = gatewayWith();
  const nonsense = new AgentError({ code: 'text-not-a-string', message: '<', remedy: 'give-up', exit: 'protocol' });
  const ports = await gateway.ports();
  const order = {
    version: { id: '2', name: 'version 2' },
    by: 'service',
    source: gateway.service.firmware('2'),
  } as const;
  const openFirmware = async (): Promise<never> => {
    throw nonsense;
  };
  for (let attempt = 0; attempt < 5; attempt += 1) {
    const failing = update({ ...order, reboot: true, force: false }, { ...ports, openFirmware });
    await expect(failing).rejects.toBe(nonsense);
  }
  gateway.service.target = '2';
  expect(await gateway.run()).toMatchObject({ kind: 'up-to-date' });
});
