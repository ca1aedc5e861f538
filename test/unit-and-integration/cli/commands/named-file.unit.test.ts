import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, test } from 'vitest';

import type { AgentOperations } from '../../../../src/control/operations.ts';
import { DaemonError } from '../../../../src/daemon/errors.ts';
import { openNamedFile } from '../../../../src/system/files/opened-file.ts';
import { type as typeAt } from '../fake-context.ts';
import { fakeAgent } from '../fake-operations.ts';

const openFile = openNamedFile;
let folder: string;
let file: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'named-'));
  file = join(folder, "the owner's.mender");
  await writeFile(file, 'firmware');
});
afterAll(async () => rm(folder, { recursive: true }));

const commands = [[['install']], [['info']], [['mcu', 'flash', 'meter']], [['mcu', 'flash', '--plan', 'meter']]];

/** An agent that reads the file that it gets. */
function reader(read: string[]): AgentOperations {
  const agent = fakeAgent();
  const take = async ({ file: taken }: { readonly file: AsyncIterableOf }): Promise<void> => {
    for await (const chunk of taken.read(new AbortController().signal)) read.push(Buffer.from(chunk).toString());
  };
  return {
    ...agent,
    install: async (input, ...more) => take(input).then(async () => agent.install(input, ...more)),
    inspect: async (input, ...more) => take(input).then(async () => agent.inspect(input, ...more)),
    flash: async (input, ...more) => take(input).then(async () => agent.flash(input, ...more)),
    planBoard: async (input, ...more) => take(input).then(async () => agent.planBoard(input, ...more)),
  };
}

type AsyncIterableOf = Parameters<AgentOperations['install']>[0]['file'];

test.each(commands)('agent %j opens the file itself', async (words) => {
  const read: string[] = [];
  const { exitCode } = await typeAt([...words, file], { daemon: reader(read), openFile });
  expect([exitCode, read]).toEqual([0, ['firmware']]);
});

test.each(commands)('agent %j asks no agent about a file that it cannot open', async (words) => {
  const daemon = fakeAgent();
  const { exitCode, err } = await typeAt([...words, join(folder, 'no')], { daemon, openFile });
  expect([exitCode, err]).toEqual([64, expect.stringMatching(/no such file\s+\(file-unreadable\)/)]);
  expect(daemon.calls).toEqual([]);
});

// Regression: `agent --config FILE info` ignored FILE while a daemon ran, without a word.
test('is checked by the daemon, with a note, for a user who may not read the state', async () => {
  const refused = async () => Promise.reject(new DaemonError('state-not-permitted', 'not here'));
  const report = { file: 'x', payloads: [], obstacles: [] };
  const daemon = fakeAgent({ inspect: async () => report });
  const { exitCode, out, err } = await typeAt(['info', 'x'], { daemon, readOnly: refused, isConfigNamed: true });
  expect(exitCode).toBe(0);
  expect(out).toContain('It would be installed');
  expect(err).toMatch(/by its own\s+configuration/);
});
