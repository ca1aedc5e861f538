import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { type Log, silentLog } from '../../../../src/system/log/log.ts';
import { connectServiceManager } from '../../../../src/system/processes/systemd-notify.ts';
import { folderUntilTestEnds } from '../../../until-test-ends.ts';

let directory: string;
let socketPath: string;
let receiver: ChildProcessByStdio<null, Readable, null>;
let lines: AsyncIterator<string, undefined>;

beforeEach(async () => {
  directory = folderUntilTestEnds();
  socketPath = join(directory, 'notify');
  receiver = spawn('perl', [join(import.meta.dirname, 'notify-socket.pl'), socketPath], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  lines = createInterface(receiver.stdout)[Symbol.asyncIterator]();
  await nextMessage();
});

afterEach(() => {
  receiver.kill('SIGKILL');
  delete process.env['NOTIFY_SOCKET'];
});

async function nextMessage(): Promise<string> {
  const { value } = await lines.next();
  return value ?? 'the receiver ended';
}

/** Messages of assignments; the program also asks the manager to confirm that it has read them. */
async function nextAssignments(): Promise<string> {
  for (;;) {
    const message = await nextMessage();
    if (message !== 'BARRIER=1') return message;
  }
}

test("systemd's own program passes messages on to the socket", async () => {
  process.env['NOTIFY_SOCKET'] = socketPath;
  await using systemd = connectServiceManager(process.env, silentLog);
  systemd.ready();
  expect(await nextAssignments()).toBe('READY=1');
  systemd.status('up to date; next look at 04:15');
  expect(await nextAssignments()).toBe('STATUS=up to date; next look at 04:15');
  systemd.watchdog();
  expect(await nextAssignments()).toBe('WATCHDOG=1');
  systemd.stopping();
  expect(await nextAssignments()).toBe('STOPPING=1');
});

test('a manager that does not listen is warned of, not waited for', async () => {
  process.env['NOTIFY_SOCKET'] = join(directory, 'gone');
  const warnings: string[] = [];
  const log: Log = { ...silentLog, warn: ({ error }, message) => void warnings.push(`${message}: ${error}`) };
  const systemd = connectServiceManager(process.env, log);
  systemd.ready();
  await systemd[Symbol.asyncDispose]();
  expect(warnings).toEqual([expect.stringMatching(/^cannot notify systemd of the agent's state: systemd-notify: ./)]);
});
