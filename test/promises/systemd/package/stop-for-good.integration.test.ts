import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { run } from '../installed-root.ts';

const script = resolve(import.meta.dirname, '../../../../systemd/debian/stop-for-good');
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'stop-'));
});
afterEach(async () => rm(folder, { recursive: true }));

/** What was called where the first stops end with these codes; `timeout` ends with 124 in place of what takes too long. */
async function calls(...codes: readonly number[]): Promise<readonly string[]> {
  const log = join(folder, 'log');
  await writeFile(join(folder, 'codes'), codes.map((code) => `${code}\n`).join(''));
  await program('timeout', `echo "timeout $*" >>'${log}'; sed -n 1p codes >code; sed -i 1d codes; exit $(cat code)`);
  await program('systemctl', `echo "systemctl $*" >>'${log}'`);
  const { exitCode } = await run('sh', '-c', `cd '${folder}'; PATH="$PWD:$PATH" sh '${script}' a.service b.service`);
  expect(exitCode).toBe(0);
  return (await readFile(log, 'utf8')).trim().split('\n');
}

async function program(name: string, text: string): Promise<void> {
  await writeFile(join(folder, name), `#!/bin/sh\n${text}\n`);
  await chmod(join(folder, name), 0o755);
}

const stop = (seconds: number): string => `timeout ${seconds} deb-systemd-invoke stop a.service b.service`;

test('units that end in their time are left alone', async () => {
  expect(await calls(0)).toEqual([stop(150)]);
});

// Seen: an agent that asked systemd for more time every five seconds held dpkg for as long as it liked.
test('units that do not are killed, and no package fails by that', async () => {
  expect(await calls(124, 124)).toEqual([stop(150), 'systemctl kill --signal=KILL a.service b.service', stop(30)]);
});
