import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, test } from 'vitest';

import type { AgentOperations } from '../../../../src/control/operations.ts';
import { FirmwareError } from '../../../../src/firmware/errors.ts';
import { type as typeAt } from '../fake-context.ts';
import { fakeAgent } from '../fake-operations.ts';

let folder: string;
let file: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'named-'));
  file = join(folder, "the owner's.mender");
  await writeFile(file, '');
});
afterAll(async () => rm(folder, { recursive: true }));

/** An agent in another /tmp. */
function blindAgent(error = new FirmwareError('file-unreadable', 'there is no such file')): AgentOperations {
  const fail = async (): Promise<never> => {
    throw error;
  };
  return { ...fakeAgent(), install: fail, inspect: fail, flash: fail, planBoard: fail };
}

// Seen: "there is no such file" of a file in /tmp, which lies there for everybody but the agent.
test.each([[['install']], [['info']], [['mcu', 'flash', 'meter']], [['mcu', 'flash', '--plan', 'meter']]])(
  'agent %j says that only the agent cannot read the file, and what to type',
  async (words) => {
    const { exitCode, err } = await typeAt([...words, file], { daemon: blindAgent(), columns: 400 });
    expect(exitCode).toBe(64);
    expect(err).toContain(`the agent cannot read ${file}, which you can`);
    expect(err).toContain(`install -m 644 '${folder}/the owner'\\''s.mender' /srv/`);
  },
);

test('a file that is not there is not there', async () => {
  const { exitCode, err } = await typeAt(['install', join(folder, 'no')], { daemon: blindAgent() });
  expect([exitCode, err]).toEqual([64, expect.stringContaining('(file-unreadable)')]);
});

test('a disk that fails is told as that', async () => {
  const broken = new FirmwareError('file-unreadable', 'EIO', { exit: 'disk' });
  const { exitCode, err } = await typeAt(['install', file], { daemon: blindAgent(broken) });
  expect([exitCode, err]).toEqual([74, expect.stringContaining('EIO')]);
});
