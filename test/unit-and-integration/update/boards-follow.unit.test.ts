import { describe, expect, test } from 'vitest';

import { AgentError } from '../../../src/system/errors.ts';
import { rollBackManually } from '../../../src/update/manual.ts';
import { otherSlot } from '../../../src/update/slot.ts';
import { recoverUpdate } from '../../../src/update/trial/recovery.ts';
import { Gateway } from '../../fakes/machine/memory/gateway.ts';
import { MemoryService } from '../../fakes/machine/memory/memory-service.ts';
import { openContents } from './board-firmware.ts';
import type { Contents } from './board-firmware.ts';
import { blockedIn } from './version-entries.ts';

const FACTORY = { gateway: 'factory image', meter: 'factory meter', relay: 'factory relay' };

const firmware: Readonly<Record<string, Contents>> = {
  v1: { gateway: 'image of v1', meter: 'meter of v1' },
  v2: { gateway: 'image of v2, longer', meter: 'meter of v2', relay: 'relay of v2' },
  slot: { gateway: 'image without boards' },
  meter: { meter: 'another meter program' },
  bad: { meter: 'bad meter program' },
};

const V1 = { gateway: 'image of v1', meter: 'meter of v1', relay: 'factory relay' };
const V2 = { gateway: 'image of v2, longer', meter: 'meter of v2', relay: 'relay of v2' };

/** Updated to each of the versions, one after the other. */
async function gatewayAfter(versions: readonly string[], seed = 1): Promise<Gateway> {
  const texts = new Map(['none', ...Object.keys(firmware)].map((id) => [id, Buffer.from(id, 'latin1')]));
  const service = new MemoryService(texts, 'none');
  const { gateway: image, ...boards } = FACTORY;
  const gateway: Gateway = new Gateway({
    service,
    openFirmware: openContents(firmware),
    slots: { A: image, B: '' },
    boards,
    seed,
    complaint: () => (gateway.boards.get('meter')?.running.startsWith('bad') === true ? 'nonsense' : undefined),
  });
  gateway.start();
  for (const version of versions) {
    service.target = version;
    await gateway.run();
  }
  return gateway;
}

function running(gateway: Gateway): Contents {
  const boards = [...gateway.boards].map(([name, board]): [string, string] => [name, board.running]);
  return { gateway: gateway.running, ...Object.fromEntries(boards) };
}

/** The committed slot no longer starts, and the other one does. */
function fallBack(gateway: Gateway): void {
  const committed = gateway.bootloader.booted;
  do gateway.start();
  while (gateway.bootloader.booted === committed);
}

/** An operator at the bootloader chooses the inactive slot. */
async function chooseOther(gateway: Gateway): Promise<void> {
  await gateway.bootloader.commit(otherSlot(gateway.bootloader.booted), new AbortController().signal);
  gateway.start();
}

async function rest(gateway: Gateway): Promise<void> {
  for (let round = 0; round < 10 && !gateway.power.isOut; round += 1) {
    const settled = await gateway.settle().catch((error: unknown) => {
      if (!(error instanceof AgentError) && !gateway.power.isOut) throw error;
      return undefined;
    });
    if (settled?.kind === 'rebooting') gateway.start();
    else if (settled?.kind === 'settled') return;
  }
}

async function outcomes(gateway: Gateway): Promise<readonly unknown[]> {
  const { reports } = (await gateway.journal()).state;
  return reports.map(({ version, outcome, code }) => `${version} ${outcome} ${code}`);
}

describe('where the bootloader falls back after a commit', () => {
  test('the boards follow the slot, and the service is notified once', async () => {
    const gateway = await gatewayAfter(['v1', 'v2']);
    fallBack(gateway);
    expect(running(gateway)).toEqual({ ...V2, gateway: V1.gateway });
    expect(await gateway.settle()).toMatchObject({ kind: 'rolled-back', reason: /slot B runs again/ });
    expect(running(gateway)).toEqual(V1);
    expect(await gateway.settle()).toEqual({ kind: 'settled' });
    expect(await outcomes(gateway)).toEqual(['version v2 rolled-back fell-back']);
    const { state } = await gateway.journal();
    expect(state).toMatchObject({ installed: { version: { id: 'v1' } }, pendingSwitch: 'v1', phase: { kind: 'idle' } });
    expect(blockedIn(state)).toEqual([]);
  });

  test('they follow it forth again, too', async () => {
    const gateway = await gatewayAfter(['v1', 'v2']);
    fallBack(gateway);
    await rest(gateway);
    await chooseOther(gateway);
    await rest(gateway);
    expect(running(gateway)).toEqual(V2);
    expect(await outcomes(gateway)).toEqual(['version v2 rolled-back fell-back', 'version v1 rolled-back fell-back']);
  });

  test('and back again before they could follow, there is nothing to do or report', async () => {
    const gateway = await gatewayAfter(['v1', 'v2']);
    fallBack(gateway);
    const { journal } = await gateway.ports();
    await journal.append({ type: 'slots-swapped', booted: 'B' });
    await chooseOther(gateway);
    await rest(gateway);
    expect(running(gateway)).toEqual(V2);
    expect(await outcomes(gateway)).toEqual([]);
    expect((await gateway.journal()).state.fellFrom).toBeUndefined();
  });

  test('to what the factory made, they get back what the factory put there', async () => {
    const gateway = await gatewayAfter(['v2']);
    fallBack(gateway);
    await rest(gateway);
    expect(running(gateway)).toEqual(FACTORY);
  });

  test('without boards, the service is still notified', async () => {
    const gateway = await gatewayAfter(['v1', 'slot']);
    fallBack(gateway);
    await rest(gateway);
    expect(await outcomes(gateway)).toEqual(['version slot rolled-back fell-back']);
  });

  test('a board that cannot follow is named', async () => {
    const gateway = await gatewayAfter(['v1', 'v2']);
    gateway.boards.get('relay')?.forget();
    fallBack(gateway);
    await rest(gateway);
    expect(running(gateway)).toEqual({ ...V1, relay: V2.relay });
    expect((await gateway.journal()).state.lastOutcome).toMatchObject({
      code: 'board-not-restored',
      reason: /relay cannot follow, and stays as it is/,
    });
  });

  test('a board is not given what it held between two versions, when it was updated alone since', async () => {
    const gateway = await gatewayAfter(['v1', 'v2', 'meter']);
    fallBack(gateway);
    await rest(gateway);
    expect(running(gateway)).toEqual({ ...V1, meter: 'another meter program' });
    expect((await gateway.journal()).state.lastOutcome).toMatchObject({ reason: /meter cannot follow/ });
  });

  test('a board that is away follows when it is back', async () => {
    const gateway = await gatewayAfter(['v1', 'v2']);
    const relay = gateway.boards.get('relay');
    if (relay !== undefined) relay.unplugged = true;
    fallBack(gateway);
    await expect(gateway.settle()).rejects.toMatchObject({ code: 'port-missing' });
    if (relay !== undefined) relay.unplugged = false;
    await rest(gateway);
    expect(running(gateway)).toEqual(V1);
  });

  test('and a power loss at any step, they still follow, and one end is reported', async () => {
    for (let steps = 1; ; steps += 1) {
      const gateway = await gatewayAfter(['v1', 'v2'], steps);
      fallBack(gateway);
      gateway.power.cutAfter(steps);
      await rest(gateway);
      if (!gateway.power.isOut) break;
      gateway.reboot();
      await rest(gateway);
      expect([V1, V2], `cut after ${gateway.power.history.join(', ')}`).toContainEqual(running(gateway));
      expect(await outcomes(gateway)).toEqual(['version v2 rolled-back fell-back']);
    }
  });
});

describe('an update of boards alone', () => {
  test('leaves the record of the slot as it was', async () => {
    const gateway = await gatewayAfter(['v1', 'v2', 'meter']);
    const { installed, earlier } = (await gateway.journal()).state;
    expect(installed?.payloads.map(({ target }) => target).toSorted()).toEqual(['gateway', 'meter', 'relay']);
    expect(earlier.map(({ version }) => version.id)).toEqual(['v2', 'v1']);
  });

  test('is rolled back by hand without a reboot, and the next rollback goes to the other slot', async () => {
    const gateway = await gatewayAfter(['v1', 'v2', 'meter']);
    expect(await gateway.goBack()).toEqual({ kind: 'installed', version: 'version v2' });
    expect(running(gateway)).toEqual(V2);
    const { installed, earlier } = (await gateway.journal()).state;
    expect(installed).toMatchObject({ version: { id: 'v2' }, slot: 'A' });
    expect(installed?.payloads).toHaveLength(3);
    expect(earlier.map(({ version }) => version.id)).toEqual(['v1']);
    await gateway.goBack(true);
    gateway.start();
    expect(await gateway.settle()).toMatchObject({ kind: 'installed' });
    expect(gateway.running).toBe(V1.gateway);
  });

  // Regression: the second rollback only finished undoing the first one, and reported success.
  test('is rolled back after an earlier rollback that has to be undone first', async () => {
    const gateway = await gatewayAfter(['v1', 'v2', 'meter']);
    const meter = gateway.boards.get('meter');
    if (meter === undefined) throw new Error('no meter');
    meter.failures = 1;
    meter.onFailure = () => (meter.unplugged = true);
    const rollBack = async (): Promise<unknown> => {
      const ports = await gateway.ports();
      const deps = { ports, settle: async () => recoverUpdate(ports), deliver: async () => undefined };
      return rollBackManually({ reboot: true, force: false }, deps);
    };
    await expect(rollBack()).rejects.toMatchObject({ code: 'port-missing' });
    meter.unplugged = false;
    expect(await rollBack()).toMatchObject({ kind: 'installed', version: 'version v2' });
    expect(running(gateway)).toEqual(V2);
  });

  // Regression: the failed update replaced the only backup of the board, and the rollback was refused.
  test('is rolled back by hand after a later update of the board failed', async () => {
    const gateway = await gatewayAfter(['v1', 'v2', 'meter', 'bad']);
    expect(running(gateway)).toEqual({ ...V2, meter: 'another meter program' });
    expect(await gateway.goBack()).toEqual({ kind: 'installed', version: 'version v2' });
    expect(running(gateway)).toEqual(V2);
  });

  test('refuses a rollback if a board cannot follow', async () => {
    const gateway = await gatewayAfter(['v1', 'v2', 'meter']);
    gateway.boards.get('meter')?.forget();
    await expect(gateway.goBack()).rejects.toMatchObject({ code: 'no-previous-version', message: /meter/ });
    expect((await gateway.journal()).state.phase).toEqual({ kind: 'idle' });
  });

  // Regression: refused with the advice to force it, and refused again, until the next update of the slot.
  test('leaves a board that cannot follow behind, if the rollback is forced', async () => {
    const gateway = await gatewayAfter(['v1', 'v2', 'meter']);
    gateway.boards.get('meter')?.forget();
    expect(await gateway.goBack(true)).toMatchObject({ kind: 'rebooting' });
    gateway.start();
    expect(await gateway.settle()).toMatchObject({ kind: 'installed', version: 'version v1' });
    expect(running(gateway)).toEqual({ ...V1, meter: 'another meter program' });
  });

  test('refuses a forced rollback, too, if a board cannot follow and the other slot was never seen running', async () => {
    const gateway = await gatewayAfter(['meter']);
    gateway.boards.get('meter')?.forget();
    await expect(gateway.goBack(true)).rejects.toMatchObject({ code: 'no-previous-version' });
    expect((await gateway.journal()).state.phase).toEqual({ kind: 'idle' });
  });

  test('and a power loss at any step of its rollback ends in all of one or all of the other', async () => {
    for (let steps = 1; ; steps += 1) {
      const gateway = await gatewayAfter(['v1', 'v2', 'meter'], steps);
      gateway.power.cutAfter(steps);
      await gateway.goBack().catch(() => undefined);
      if (!gateway.power.isOut) break;
      gateway.reboot();
      await rest(gateway);
      expect([V2, { ...V2, meter: 'another meter program' }]).toContainEqual(running(gateway));
      const name = (await gateway.journal()).state.installed?.version.id;
      expect(name).toBe(running(gateway)['meter'] === V2.meter ? 'v2' : 'meter');
    }
  });
});
