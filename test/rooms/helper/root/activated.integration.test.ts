import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { appendFile, chown, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { agentProgram } from '../../../stand-ins/machine/built-agent.ts';
import { stop } from '../../../stand-ins/machine/file-gateway.ts';
import type { FileGateway } from '../../../stand-ins/machine/file-gateway.ts';
import { agentUser, TwoProcesses } from '../two-processes-rig.ts';

const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

let rig: TwoProcesses;
let gateway: FileGateway;
let activated: ChildProcess | undefined;
/** What the helper logs. */
let said: string[];

beforeEach(async () => {
  rig = await TwoProcesses.create();
  ({ gateway } = rig);
  said = [];
});
afterEach(async () => {
  if (activated !== undefined) await stop(activated, 'SIGKILL');
  activated = undefined;
  await rig[Symbol.asyncDispose]();
});

/** In the place of the helper that runs one that the first connection to its socket starts, as systemd does. */
async function listenInstead(): Promise<void> {
  await stop(rig.helper);
  const path = join(gateway.directory, 'helper/helper.sock');
  const kept = ['PATH', 'CACHE_DIRECTORY', 'NODE_COMPILE_CACHE'].flatMap((name) =>
    process.env[name] === undefined ? [] : ['-E', name],
  );
  const args = [`--listen=${path}`, ...kept, agentProgram(), '--config', gateway.configFile, 'helper'];
  activated = spawn('systemd-socket-activate', args, { stdio: ['ignore', 'ignore', 'pipe'] });
  if (activated.stderr !== null) createInterface({ input: activated.stderr }).on('line', (line) => said.push(line));
  await expect.poll(() => existsSync(path) && said.some((line) => line.includes('Listening on'))).toBe(true);
  await chown(path, agentUser, agentUser);
}

// Seen: it ended before it took the connection, so that systemd started it twice a second for good, and the agent said
// after two minutes that there was no answer.
test('a helper whose configuration cannot be used says so to whoever asks, and serves when it can be', async () => {
  const daemon = await gateway.startDaemon();
  await gateway.rebootRequest(AbortSignal.timeout(120_000));
  await listenInstead();
  const before = await readFile(gateway.configFile, 'utf8');
  await appendFile(gateway.configFile, '[updat\n');
  const lines = before.split('\n').length;
  const where = new RegExp(`config\\.toml:${lines}: `);
  for (const command of ['hold', 'resume'])
    expect(await gateway.run(command)).toMatchObject({ exitCode: 78, stderr: matching(where) });
  expect(said.filter((line) => where.test(line))).toEqual([matching(/the helper can do nothing: /)]);
  await writeFile(gateway.configFile, before.replace(/^helper = .*$/m, ''));
  expect(await gateway.run('hold')).toMatchObject({ exitCode: 77, stderr: matching(/names no helper/) });
  await writeFile(gateway.configFile, before);
  expect(await gateway.run('hold')).toMatchObject({ exitCode: 0 });
  expect(await stop(daemon)).toBe(0);
  if (activated?.exitCode === null) await once(activated, 'exit');
  expect(activated?.exitCode).toBe(0);
});
