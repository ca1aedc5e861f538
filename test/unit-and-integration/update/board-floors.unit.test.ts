import { describe, expect, test } from 'vitest';

import { Gateway } from '../../fakes/machine/memory/gateway.ts';
import { MemoryService } from '../../fakes/machine/memory/memory-service.ts';
import { openContents } from './board-firmware.ts';
import type { Contents } from './board-firmware.ts';

const firmware: Readonly<Record<string, Contents>> = {
  four: { gateway: 'gateway four', meter: 'meter, counter 4' },
  sick: { gateway: 'bad gateway', meter: 'meter, counter 9' },
  three: { meter: 'older meter, counter 3' },
  none: { meter: 'older meter' },
  young: { meter: 'meter, version 1.10.0' },
  old: { meter: 'meter, version 1.9.0' },
  five: { gateway: 'gateway five', meter: 'meter, counter 5' },
};

function gatewayWith(target: string, downgrade: 'allow' | 'refuse' = 'allow'): Gateway {
  const texts = new Map(['nothing', ...Object.keys(firmware)].map((id) => [id, Buffer.from(id, 'latin1')]));
  const service = new MemoryService(texts, 'nothing');
  service.target = target;
  const gateway = new Gateway({
    service,
    openFirmware: openContents(firmware),
    slots: { A: 'old gateway', B: '' },
    boards: { meter: 'meter of the factory' },
    seed: 1,
    downgrade,
    complaint: (content) => (content.startsWith('bad') ? 'it is not well' : undefined),
  });
  gateway.start();
  return gateway;
}

async function install(gateway: Gateway, target: string): Promise<string | undefined> {
  gateway.service.target = target;
  await gateway.run().catch(() => {});
  return gateway.boards.get('meter')?.running;
}

describe('a board', () => {
  test.each(['three', 'none'])('gets no image older than the committed one: %s', async (old) => {
    const gateway = gatewayWith('four');
    expect(await install(gateway, 'four')).toBe('meter, counter 4');
    gateway.service.target = old;
    await expect(gateway.look()).rejects.toMatchObject({ code: 'downgrade', exit: 'refused' });
    expect(gateway.boards.get('meter')?.running).toBe('meter, counter 4');
    expect(await install(gateway, 'five')).toBe('meter, counter 5');
    expect((await gateway.journal()).state.boardFloors).toEqual({ meter: { securityVersion: 5 } });
  });

  test('gets no older version where none is wanted, whatever the release is called', async () => {
    const gateway = gatewayWith('young', 'refuse');
    expect(await install(gateway, 'young')).toBe('meter, version 1.10.0');
    gateway.service.target = 'old';
    await expect(gateway.look()).rejects.toMatchObject({
      code: 'downgrade',
      message: expect.stringContaining('older than 1.10.0') as unknown,
    });
    const lenient = gatewayWith('young');
    await install(lenient, 'young');
    expect(await install(lenient, 'old')).toBe('meter, version 1.9.0');
    expect((await lenient.journal()).state.boardFloors).toEqual({ meter: { name: '1.10.0' } });
  });

  test('has no minimum from a version that was never committed', async () => {
    const gateway = gatewayWith('sick');
    expect(await install(gateway, 'sick')).toBe('meter of the factory');
    expect((await gateway.journal()).state.boardFloors).toBeUndefined();
    expect(await install(gateway, 'three')).toBe('older meter, counter 3');
  });
});
