import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import type { Board } from '../../../../src/mcu/connection.ts';
import { flash } from '../../../../src/mcu/flash/flash.ts';
import { makeImage } from '../../../../src/mcu/images/image.ts';
import { xmodem } from '../../../../src/mcu/protocols/xmodem.ts';
import { openSerialLine } from '../../../../src/serial/serial-line.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { systemClock } from '../../../../src/system/time/clock.ts';
import { program } from './fault-matrix.ts';

const signal = new AbortController().signal;

async function appears(path: string): Promise<void> {
  for (let tries = 0; tries < 200; tries += 1) {
    const there = await access(path).then(
      () => true,
      () => false,
    );
    if (there) return;
    await systemClock.sleep(25, signal);
  }
  throw new Error(`${path} does not appear`);
}

test.concurrent.each([
  ['xmodem', 'rx -q -c -b received'],
  ['xmodem-1k', 'rx -q -c -b received'],
  ['ymodem', 'rb -q -b'],
] as const)("lrzsz's own receiver takes %s", async (variant, receiver) => {
  const folder = await mkdtemp(join(tmpdir(), 'xmodem-'));
  const port = join(folder, 'port');
  const child = spawn('socat', [`PTY,link=${port},rawer,wait-slave`, `EXEC:${receiver}`], {
    cwd: folder,
    stdio: 'ignore',
  });
  const ended = once(child, 'close');
  try {
    await appears(port);
    const bytes = program(5_000, 3);
    const board: Board = {
      name: 'board',
      protocol: xmodem({ variant, fileName: 'received' }),
      baud: 115_200,
      reset: 'none',
      openLine: async (settings, lineSignal) => openSerialLine(port, settings, lineSignal),
      clock: systemClock,
      log: silentLog,
    };
    const report = await flash({ image: makeImage('raw', [{ address: 0, bytes }]) }, board, signal);
    expect(report).toMatchObject({ unitsWritten: 1, known: 'sent' });
    await ended;
    const received = await readFile(join(folder, 'received'));
    expect(Buffer.compare(received.subarray(0, bytes.byteLength), bytes)).toBe(0);
  } finally {
    child.kill('SIGKILL');
    await rm(folder, { recursive: true, force: true });
  }
});
