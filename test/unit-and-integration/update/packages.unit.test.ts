import { describe, expect, test } from 'vitest';

import type { OperationEvent } from '../../../src/control/events.ts';
import { cancelManually, commitManually, rollBackManually } from '../../../src/update/manual.ts';
import type { ManualActionDeps } from '../../../src/update/manual.ts';
import { recoverUpdate } from '../../../src/update/trial/recovery.ts';
import { Updater } from '../../../src/update/updater.ts';
import { Gateway } from '../../fakes/machine/memory/gateway.ts';
import { MemoryService } from '../../fakes/machine/memory/memory-service.ts';
import { openContents } from './board-firmware.ts';

const OLD = 'the old package';
const NEW = 'the new package, longer';
const BAD = 'bad package';
const firmware = { good: { app: NEW }, bad: { app: BAD }, both: { app: NEW, meter: 'new meter program' } } as const;

class Cut extends Error {}

interface Bench {
  readonly gateway: Gateway;
  /** The next question after health ends the agent. */
  readonly cutAtHealth: () => void;
  readonly running: () => string | undefined;
}

function benchOf(target: keyof typeof firmware): Bench {
  const texts = new Map(['none', ...Object.keys(firmware)].map((id) => [id, Buffer.from(id, 'latin1')]));
  const service = new MemoryService(texts, 'none');
  service.target = target;
  let isCut = false;
  const gateway: Gateway = new Gateway({
    service,
    openFirmware: openContents(firmware),
    slots: { A: 'the system', B: '' },
    boards: { meter: 'old meter program' },
    packages: { app: OLD },
    complaint: () => {
      if (isCut) {
        isCut = false;
        throw new Cut('the agent was killed');
      }
      return running()?.startsWith('bad') === true ? 'the application is not well' : undefined;
    },
  });
  const running = (): string | undefined => gateway.boards.get('app')?.running;
  gateway.start();
  return {
    gateway,
    running,
    cutAtHealth: () => {
      isCut = true;
    },
  };
}

test('a package is installed on trial, judged, and kept, without a reboot', async () => {
  const { gateway, running } = benchOf('good');
  expect(await gateway.look()).toMatchObject({ kind: 'installed' });
  expect(running()).toBe(NEW);
  expect((await gateway.journal()).state).toMatchObject({
    phase: { kind: 'idle' },
    installed: { version: { id: 'good' } },
  });
});

test('an unhealthy package is restored, and its version is blocked', async () => {
  const { gateway, running } = benchOf('bad');
  expect(await gateway.look()).toMatchObject({ kind: 'rolled-back', reason: 'the application is not well' });
  expect(running()).toBe(OLD);
  expect((await gateway.journal()).state).toMatchObject({
    phase: { kind: 'idle' },
    versions: [{ version: { id: 'bad' }, bad: {} }],
  });
});

// Regression: the service was notified at the next check, up to a quarter of an hour later.
test('a package that is restored immediately is reported immediately', async () => {
  const { gateway } = benchOf('bad');
  const policy = { attempts: 3, window: undefined, rebootWindow: undefined, quarantineMs: 86_400_000 };
  const updater = new Updater({
    ports: await gateway.ports(),
    service: gateway.service,
    settings: { follow: { kind: 'target' }, policy, outcomeProperty: 'update_outcome' },
    minuteOfDay: () => 0,
  });
  const order = { reboot: true, force: false, manual: true };
  expect(await updater.updateNow(order, () => {}, new AbortController().signal)).toMatchObject({ kind: 'rolled-back' });
  expect(gateway.service.reports).toMatchObject([{ version: 'version bad', outcome: 'rolled-back' }]);
  expect(updater.journal.state.reports).toEqual([]);
});

test('a package that was put back while no agent ran is not taken as installed by the one that starts next', async () => {
  const { gateway, running, cutAtHealth } = benchOf('good');
  cutAtHealth();
  await expect(gateway.look()).rejects.toThrow(Cut);
  const app = gateway.boards.get('app');
  expect(app?.running).toBe(NEW);
  if (app !== undefined) app.running = OLD;
  gateway.start();
  expect(await gateway.settle()).toMatchObject({ kind: 'installed' });
  expect(running()).toBe(NEW);
  expect(app?.flashed).toEqual([NEW, NEW]);
});

// Regression: "committing: slot A".
test('a package is judged and kept without a word of slots', async () => {
  const { gateway, cutAtHealth } = benchOf('good');
  cutAtHealth();
  await expect(gateway.look()).rejects.toThrow(Cut);
  gateway.start();
  const told: OperationEvent[] = [];
  const ports = { ...(await gateway.ports()), onProgress: (event: OperationEvent) => void told.push(event) };
  expect(await recoverUpdate(ports)).toMatchObject({ kind: 'installed' });
  expect(told).toContainEqual({ kind: 'phase', phase: 'committing' });
  expect(JSON.stringify(told)).not.toContain('slot');
});

// Regression: "board-not-restored", and the advice "agent mcu restore NAME".
test('a package that cannot be restored after any number of attempts is reported as such', async () => {
  const { gateway, cutAtHealth } = benchOf('bad');
  cutAtHealth();
  await expect(gateway.look()).rejects.toThrow(Cut);
  const app = gateway.boards.get('app');
  if (app !== undefined) app.unplugged = true;
  for (let round = 0; round < 15; round += 1) await gateway.settle().catch(() => undefined);
  expect((await gateway.journal()).state).toMatchObject({
    phase: { kind: 'idle' },
    lastOutcome: { outcome: 'rolled-back', code: 'package-not-restored' },
  });
});

test('a package rolls back with the board of its release', async () => {
  const { gateway, running } = benchOf('both');
  const meter = gateway.boards.get('meter');
  if (meter !== undefined) meter.failures = 1;
  expect(await gateway.look()).toMatchObject({ kind: 'rolled-back' });
  expect([running(), meter?.running]).toEqual([OLD, 'old meter program']);
});

describe('a package on trial', () => {
  const byHand = async (gateway: Gateway): Promise<ManualActionDeps> => {
    const ports = await gateway.ports();
    return { ports, settle: async () => recoverUpdate(ports), deliver: async () => undefined };
  };
  const onTrial = async (): Promise<Bench> => {
    const bench = benchOf('bad');
    bench.cutAtHealth();
    await expect(bench.gateway.look()).rejects.toThrow(Cut);
    return bench;
  };

  test('is committed manually', async () => {
    const { gateway, running } = await onTrial();
    expect(await commitManually(await byHand(gateway))).toEqual({ kind: 'installed', version: 'version bad' });
    expect(running()).toBe(BAD);
  });

  test('is ended manually, and the previous one is restored', async () => {
    const { gateway, running } = await onTrial();
    const end = await rollBackManually({ reboot: true, force: false }, await byHand(gateway));
    expect(end).toMatchObject({ kind: 'rolled-back', reason: 'an operator rolled it back' });
    expect(running()).toBe(OLD);
    expect((await gateway.journal()).state.lastOutcome).toMatchObject({ outcome: 'rolled-back', code: 'manual' });
  });

  test('is past the point where it could be cancelled', async () => {
    const { gateway, running } = await onTrial();
    await expect(cancelManually(await byHand(gateway))).rejects.toMatchObject({ code: 'trial-in-progress' });
    expect(running()).toBe(BAD);
  });
});
