import { symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';

import { expect, test } from 'vitest';

import { SerialError } from '../../../src/serial/errors.ts';
import { Gateway } from '../../fakes/machine/memory/gateway.ts';
import { MemoryService } from '../../fakes/machine/memory/memory-service.ts';
import { folderUntilTestEnds } from '../../until-test-ends.ts';
import { openContents } from './board-firmware.ts';

const programs = { app: 'new app', net: 'new net', relay: 'new relay' };

interface PortUse {
  readonly gateway: Gateway;
  /** The largest number of boards that were flashed at the same time. */
  readonly most: () => number;
}

/** A gateway with a release without an order. A line is open for at most one board. */
function gatewayWith(portOf: Readonly<Record<keyof typeof programs, string>>): PortUse {
  const service = new MemoryService(new Map(['none', 'new'].map((id) => [id, Buffer.from(id)])), 'none');
  service.target = 'new';
  const gateway = new Gateway({
    service,
    openFirmware: openContents({ new: programs }, false),
    slots: { A: 'old', B: '' },
    boards: { app: 'old app', net: 'old net', relay: 'old relay' },
  });
  const open: string[] = [];
  let most = 0;
  for (const [name, board] of gateway.boards) {
    board.port = portOf[name as keyof typeof programs];
    const line = board.port.replace('by-id', 'ttyUSB0');
    const flash = board.flash.bind(board);
    board.flash = async (...request) => {
      if (open.includes(line)) throw new SerialError('port-busy', `cannot open ${line}: this agent has it open`);
      most = Math.max(most, open.push(line));
      await setImmediate();
      await flash(...request);
      open.splice(open.indexOf(line), 1);
    };
  }
  gateway.start();
  return { gateway, most: () => most };
}

function running({ boards }: Gateway): Record<string, string> {
  return Object.fromEntries([...boards].map(([name, board]) => [name, board.running]));
}

// Regression: a release for two images of one SMP server always failed, since both were flashed at the same time.
test('flashes boards that share a port one after the other, and others in parallel', async () => {
  const directory = folderUntilTestEnds();
  const port = join(directory, 'ttyUSB0');
  writeFileSync(port, '');
  symlinkSync(port, join(directory, 'by-id'));
  const { gateway, most } = gatewayWith({ app: port, net: join(directory, 'by-id'), relay: join(directory, 'ttyS0') });
  expect(await gateway.look()).toMatchObject({ kind: 'installed' });
  expect(running(gateway)).toEqual(programs);
  expect(most()).toBe(2);
});

test('flashes them one after the other, too, while their port is absent', async () => {
  const { gateway, most } = gatewayWith({ app: '/dev/absent', net: '/dev/absent', relay: '/dev/absent' });
  expect(await gateway.look()).toMatchObject({ kind: 'installed' });
  expect(most()).toBe(1);
});

test('flashes boards with different ports in parallel', async () => {
  const { gateway, most } = gatewayWith({ app: '/dev/a', net: '/dev/b', relay: '/dev/c' });
  expect(await gateway.look()).toMatchObject({ kind: 'installed' });
  expect(most()).toBe(3);
});
