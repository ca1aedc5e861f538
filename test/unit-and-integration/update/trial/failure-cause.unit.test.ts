import { describe, expect, test } from 'vitest';

import { Gateway } from '../../../fakes/machine/memory/gateway.ts';
import { MemoryService } from '../../../fakes/machine/memory/memory-service.ts';
import { plainFirmware, openPlainFirmware } from '../plain-firmware.ts';
import { blockedIn } from '../version-entries.ts';

const OLD = 'the old image';
const NEW = 'the new image';

/** A gateway with an offer of a good image; `away` names the images from which the service is unavailable now. */
class Trial {
  away: readonly string[] = [];
  readonly gateway: Gateway;

  constructor() {
    const firmware = new Map([
      ['1', plainFirmware(OLD)],
      ['2', plainFirmware(NEW)],
      ['2 again', plainFirmware(NEW)],
    ]);
    this.gateway = new Gateway({
      service: new MemoryService(firmware, '1'),
      openFirmware: openPlainFirmware,
      slots: { A: OLD, B: '' },
      reaches: (content) => !this.away.includes(content),
    });
    this.gateway.service.target = '2';
    this.gateway.start();
  }

  /** Plays through the trial, until the old slot runs again. */
  async fail(): Promise<void> {
    await this.gateway.look();
    this.gateway.start();
    await this.gateway.settle();
    this.gateway.start();
    await this.gateway.settle();
  }

  async quarantine(): Promise<readonly string[]> {
    return blockedIn((await this.gateway.journal()).state).map(({ code }) => code);
  }
}

describe('a trial that could not reach the service', () => {
  // Regression: five minutes without the service banned a good release for a whole fleet.
  test('is tried again, and kept, where the old system could not, either', async () => {
    const trial = new Trial();
    trial.away = [NEW, OLD];
    await trial.fail();
    expect(await trial.quarantine()).toEqual([]);
    trial.away = [];
    expect(await trial.gateway.run()).toEqual({ kind: 'up-to-date', version: 'version 2' });
    const ends = trial.gateway.service.reports.map(({ outcome, code }) => `${outcome} ${code}`);
    expect(ends).toEqual(['rolled-back service-unreached', 'installed ok']);
  });

  test('is tried again however often that happens', async () => {
    const trial = new Trial();
    trial.away = [NEW, OLD];
    for (let outage = 0; outage < 6; outage += 1) await trial.fail();
    expect(await trial.quarantine()).toEqual([]);
    trial.away = [];
    expect(await trial.gateway.run()).toMatchObject({ kind: 'up-to-date' });
  });

  test('is blamed on the firmware where the old system reaches it', async () => {
    const trial = new Trial();
    trial.away = [NEW];
    await trial.fail();
    expect(await trial.quarantine()).toEqual(['service-unreached']);
    expect(await trial.gateway.run()).toMatchObject({ kind: 'deferred', code: 'quarantined' });
    expect(trial.gateway.running).toBe(OLD);
  });

  test('is tried once more when an operator lifts the quarantine, and not under a new id', async () => {
    const trial = new Trial();
    trial.away = [NEW];
    await trial.fail();
    trial.away = [];
    trial.gateway.service.target = '2 again';
    await expect(trial.gateway.run()).rejects.toMatchObject({ code: 'quarantined' });
    const journal = await trial.gateway.journal();
    await journal.append({ type: 'unblocked', release: { version: { id: '2 again', name: 'version 2 again' } } });
    expect(await trial.gateway.run()).toEqual({ kind: 'up-to-date', version: 'version 2 again' });
    expect(await trial.quarantine()).toEqual([]);
  });
});
