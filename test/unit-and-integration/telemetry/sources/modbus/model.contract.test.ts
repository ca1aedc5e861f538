import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import fc from 'fast-check';
import { expect, test } from 'vitest';

import { openSerialLine } from '../../../../../src/serial/serial-line.ts';
import { systemClock } from '../../../../../src/system/time/clock.ts';
import { RtuLine } from '../../../../../src/telemetry/sources/modbus/rtu.ts';
import { TcpDevice } from '../../../../../src/telemetry/sources/modbus/tcp.ts';
import { freePort } from '../../../../fakes/machine/free-port.ts';
import { libmodbusServer } from '../../../../fakes/modbus/libmodbus-server.ts';
import { answerPdu } from '../../../../fakes/modbus/modbus-model.ts';
import type { UnitModel } from '../../../../fakes/modbus/modbus-model.ts';

/** As libmodbus-server.c describes its unit 7. */
const unit: UnitModel = {
  holding: (address) => (address < 100 ? 1_000 + address : undefined),
  input: (address) => (address < 26 ? (address === 5 ? 0xff38 : 0) : undefined),
  coil: (address) => (address < 2 ? address : undefined),
  discrete: (address) => (address === 0 ? 1 : undefined),
};

const addresses = [0, 1, 3, 5, 25, 26, 98, 99, 100, 0xffff];
const counts = [0, 1, 2, 9, 26, 100, 125, 126, 2_000, 2_001];

type Ask = (pdu: Uint8Array) => Promise<Uint8Array>;

async function running(where: readonly string[], test: () => Promise<void>): Promise<void> {
  const server = spawn(await libmodbusServer(), where, { stdio: 'ignore' });
  try {
    await test();
  } finally {
    server.kill('SIGKILL');
    if (server.exitCode === null && server.signalCode === null) await once(server, 'exit');
  }
}

async function answering(ask: Ask): Promise<void> {
  const signal = AbortSignal.timeout(60_000);
  for (;;) {
    try {
      await ask(Uint8Array.of(3, 0, 0, 0, 1));
      return;
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof Error)) throw error;
    }
    await systemClock.sleep(50, signal);
  }
}

/** Returns the requests that the model answers in another way than the server. */
async function differences(ask: Ask, codes: readonly number[], runs: number): Promise<readonly string[]> {
  await answering(ask);
  const pdus = fc
    .tuple(fc.constantFrom(...codes), fc.constantFrom(...addresses), fc.constantFrom(...counts))
    .map(([code, address, count]) => Uint8Array.of(code, address >> 8, address & 0xff, count >> 8, count & 0xff));
  const found: string[] = [];
  for (const pdu of fc.sample(pdus, { numRuns: runs, seed: 1 })) {
    const [theirs, ours] = [await ask(pdu), answerPdu(pdu, unit)];
    if (Buffer.compare(theirs, ours) !== 0)
      found.push([pdu, theirs, ours].map((bytes) => Buffer.from(bytes).toString('hex')).join(' '));
  }
  return found;
}

const forever = new AbortController().signal;

test('answers as libmodbus does', async () => {
  const port = await freePort();
  using device = new TcpDevice({ host: '127.0.0.1', port }, systemClock);
  const ask: Ask = async (pdu) => device.ask({ unit: 7, pdu, timeoutMs: 10_000 }, forever);
  await running(['tcp', String(port)], async () => expect(await differences(ask, [1, 2, 3, 4, 0x41], 200)).toEqual([]));
});

test('answers as libmodbus does on a serial line', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'modbus-'));
  const [near, far] = [join(directory, 'near'), join(directory, 'far')];
  const cable = spawn('socat', [`pty,raw,echo=0,link=${near}`, `pty,raw,echo=0,link=${far}`], { stdio: 'ignore' });
  try {
    while (!existsSync(near) || !existsSync(far)) await systemClock.sleep(20, AbortSignal.timeout(60_000));
    const line = new RtuLine(openSerialLine, systemClock);
    const wire = { port: near, baud: 9_600, parity: 'none', timeoutMs: 2_000 } as const;
    const ask: Ask = async (pdu) => line.ask({ ...wire, unit: 7, pdu }, forever);
    await running(['rtu', far], async () => expect(await differences(ask, [1, 2, 3, 4], 40)).toEqual([]));
  } finally {
    cable.kill('SIGKILL');
    rmSync(directory, { recursive: true });
  }
});
