import { expect, test } from 'vitest';

import { Updater } from '../../../src/update/updater.ts';
import { Gateway } from '../../fakes/machine/memory/gateway.ts';
import { MemoryService } from '../../fakes/machine/memory/memory-service.ts';
import { openContents } from './board-firmware.ts';
import { LIST, plainFirmware, plainFirmwareOpener } from './plain-firmware.ts';

const { signal } = new AbortController();
const bySchedule = { reboot: true, force: false, manual: false };
const OLD = { app: 'the old package', meter: 'the old program' } as const;
const openNew = openContents({ app: { app: 'the new package' }, meter: { meter: 'the new program' } });

// Regression: nothing reboots here: the agent is killed during the health checks, or the package restarts it.
test.each(['app', 'meter'] as const)(
  'a list that the service offers by the next start takes effect before the revoked version is committed (%s)',
  async (target) => {
    const texts = new Map(['app', 'meter'].map((id) => [id, Buffer.from(id, 'latin1')]));
    const service = new MemoryService(texts.set('trust-1', Buffer.from(plainFirmware('', LIST))), target);
    let [isKilled, revocation] = [false, undefined as string | undefined];
    const openList = plainFirmwareOpener(() => (revocation = 'was revoked by list 2'));
    const gateway: Gateway = new Gateway({
      service,
      openFirmware: openNew,
      slots: { A: 'the system', B: '' },
      boards: { meter: OLD.meter },
      packages: { app: OLD.app },
      complaint: () => {
        if (isKilled || running() === OLD[target]) return undefined;
        isKilled = true;
        throw new Error('the agent is killed');
      },
    });
    const running = (): string | undefined => gateway.boards.get(target)?.running;
    const look = async (): Promise<unknown> => {
      const openFirmware = service.target === 'trust-1' ? openList : openNew;
      const ports = { ...(await gateway.ports()), openFirmware, revoked: async () => revocation };
      const policy = { attempts: 3, window: undefined, rebootWindow: undefined, quarantineMs: 86_400_000 };
      const settings = { follow: { kind: 'target' }, policy, outcomeProperty: 'outcome' } as const;
      const updater = new Updater({ ports, service, settings, minuteOfDay: () => 0 });
      return updater.updateNow(bySchedule, () => {}, signal);
    };
    gateway.start();
    await expect(look()).rejects.toThrow('killed');
    gateway.start();
    service.target = 'trust-1';
    await look();
    expect(service.reports[0]).toMatchObject({ outcome: 'rolled-back', code: 'no-longer-trusted' });
    expect(running()).toBe(OLD[target]);
  },
);
