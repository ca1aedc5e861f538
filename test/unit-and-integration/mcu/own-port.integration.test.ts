import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { createBoard } from '../../../src/mcu/create-board.ts';
import { mcuTargetSchema } from '../../../src/mcu/settings.ts';
import type { BoardSettings } from '../../../src/mcu/settings.ts';
import { silentLog } from '../../../src/system/log/log.ts';
import { settingsOf } from '../../../src/system/settings/settings.ts';
import { systemClock } from '../../../src/system/time/clock.ts';
import { FileGateway } from '../../fakes/machine/file-gateway.ts';

// Regression: with two names of one port both images went onto one board, and both were reported as installed.
test('a port is not opened that leads to another board, too', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'own-port-'));
  const port = join(directory, 'ttyUSB0');
  await writeFile(port, '');
  await symlink(port, join(directory, 'by-id'));
  const board = (name: string, at: string): BoardSettings => ({
    ...settingsOf(mcuTargetSchema, mcuTargetSchema.parse({ kind: 'mcu', port: at, protocol: 'stk500v1' })),
    name,
  });
  const opened: string[] = [];
  const openPort = async (path: string): Promise<never> => {
    opened.push(path);
    throw new Error('opened');
  };
  const open = async (settings: BoardSettings, boards: readonly BoardSettings[]): Promise<unknown> => {
    const { openLine } = await createBoard(settings, { clock: systemClock, log: silentLog, openPort, boards });
    return openLine({ baud: 115_200, parity: 'none' }, AbortSignal.timeout(10_000));
  };
  const [meter, relay, other] = [board('meter', port), board('relay', join(directory, 'by-id')), board('other', '/x')];
  for (const settings of [meter, relay])
    await expect(open(settings, [meter, relay, other])).rejects.toMatchObject({ code: 'board-port-shared' });
  expect(opened).toEqual([]);
  await expect(open(relay, [relay, other])).rejects.toThrow('opened');
  await expect(open(other, [meter, relay, other])).rejects.toThrow('opened');
  await rm(directory, { recursive: true });
});

// Regression: doctor called both boards good, and a flash named the board twice.
test('doctor and a flash report once that two boards have one port', async () => {
  const board = (name: string): string =>
    `[targets.${name}]\nkind = "mcu"\nport = "/dev/${name === 'meter' ? 'null' : '../dev/null'}"\nprotocol = "stk500v1"\n`;
  await using gateway = await FileGateway.create({
    serviceUrl: 'http://127.0.0.1:9',
    image: Buffer.alloc(1_000, 'old'),
    slotBytes: 100_000,
    extraToml: board('meter') + board('relay'),
  });
  const { findings } = (await gateway.json('doctor')) as { readonly findings: readonly unknown[] };
  expect(findings).toContainEqual(
    expect.objectContaining({
      name: 'boards',
      ok: false,
      detail: expect.stringMatching(/^meter: its port .* are one device$/) as unknown,
    }),
  );
  const { stderr } = await gateway.run('mcu', 'probe', 'meter');
  expect(stderr.replaceAll(/\s+/g, ' ')).toMatch(/^agent: meter: its port /);
});
