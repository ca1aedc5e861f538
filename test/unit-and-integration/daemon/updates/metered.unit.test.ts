import { beforeEach, describe, expect, test } from 'vitest';

import { Technician } from './technician.ts';

const byHand = { reboot: true, force: false, manual: true };
const bySchedule = { ...byHand, manual: false };
const held = { kind: 'deferred', version: 'version 2', code: 'metered-connection' };

let technician: Technician;

/** Version 1 runs, and the service names version 2. */
beforeEach(async () => {
  technician = new Technician();
  await technician.update();
  technician.gateway.service.target = '2';
});

describe('while the way to the service is metered', () => {
  beforeEach(() => {
    technician.meteredLink = 'wwan0';
  });

  test('no download begins, and none counts as failed; through another link it does', async () => {
    for (let look = 0; look < 5; look += 1) expect(await technician.updateOnce(bySchedule)).toMatchObject(held);
    expect(await technician.updateOnce(byHand)).toMatchObject(held);
    expect((await technician.updater()).journal.state).toMatchObject({
      phase: { kind: 'idle' },
      versions: [{ version: { id: '1' }, begun: 0 }],
    });
    technician.meteredLink = undefined;
    expect(await technician.update()).toEqual({ kind: 'installed', version: 'version 2' });
  });

  test('a forced update, or one from a file, is not deferred', async () => {
    await technician.install('image from a stick');
    expect(technician.gateway.running).toBe('image from a stick');
    expect(await technician.updateOnce({ ...byHand, force: true })).toMatchObject({ kind: 'rebooting' });
  });

  test('a trust list takes effect', async () => {
    technician.gateway.service.target = 'trust-1';
    expect(await technician.updateOnce(bySchedule)).toEqual({ kind: 'installed', version: 'trust-1' });
  });
});

/** The link changes while this many looks at it have been made. */
function becomesMetered(looks: number): void {
  let left = looks;
  Object.defineProperty(technician, 'meteredLink', {
    configurable: true,
    get: () => {
      left -= 1;
      return left < 0 ? 'wwan0' : undefined;
    },
  });
}

test('a download pauses when the connection becomes metered, and resumes over another one', async () => {
  const { service } = technician.gateway;
  const firmware = service.firmware.bind(service);
  const starts: number[] = [];
  service.firmware = (id) => ({
    form: 'json-string',
    open: async (from, signal) => {
      const transfer = await firmware(id).open(from, signal);
      starts.push(transfer.startOffset);
      async function* slowly(): AsyncGenerator<Uint8Array> {
        for await (const chunk of transfer.chunks) {
          technician.elapsedMs += 4_000;
          yield chunk;
        }
      }
      return { ...transfer, startOffset: transfer.startOffset, chunks: slowly() };
    },
  });
  technician.gateway.service.target = 'long';
  becomesMetered(3);
  expect(await technician.updateOnce(bySchedule)).toMatchObject({ ...held, version: 'version long' });
  const { state } = (await technician.updater()).journal;
  expect(state).toMatchObject({ phase: { kind: 'staging', checkpoint: {} } });
  Object.defineProperty(technician, 'meteredLink', { value: undefined });
  expect(await technician.update()).toEqual({ kind: 'installed', version: 'version long' });
  expect(starts).toEqual([0, state.phase.kind === 'staging' ? state.phase.checkpoint?.wire.offset : undefined]);
});
