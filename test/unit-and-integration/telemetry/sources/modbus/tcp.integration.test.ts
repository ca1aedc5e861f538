import { once } from 'node:events';
import { connect } from 'node:net';

import { afterEach, describe, expect, test } from 'vitest';

import { systemClock } from '../../../../../src/system/time/clock.ts';
import { ModbusDevices } from '../../../../../src/telemetry/sources/modbus/modbus.ts';
import { freePort } from '../../../../fakes/machine/free-port.ts';
import { ModbusTcpServer } from '../../../../fakes/modbus/tcp-server.ts';
import type { TcpConduct } from '../../../../fakes/modbus/tcp-server.ts';

const forever = new AbortController().signal;
const unit = { holding: (address: number) => 100 + address };
const register = { unit: 1, table: 'holding', type: 'u16', byteOrder: 'big', wordOrder: 'big' } as const;

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

async function bench(conduct?: (request: number) => TcpConduct, most?: number) {
  const server = stack.use(await ModbusTcpServer.start(unit, conduct, most));
  const devices = stack.use(
    new ModbusDevices(() => Promise.reject(new Error('there is no serial line here')), systemClock),
  );
  const read = async (address: number, timeoutMs = 5_000, host = '127.0.0.1'): Promise<unknown> =>
    devices.tcpSource({ host, port: server.port, timeoutMs }, { ...register, address }).read(forever);
  return { server, devices, read };
}

test('reads all registers of a device that serves one connection, in turn', async () => {
  const { server, read } = await bench(() => ({ delayMs: 50 }), 1);
  const addresses = Array.from({ length: 12 }, (_, index) => index);
  const read12 = async (): Promise<unknown[]> => Promise.all(addresses.map(async (address) => read(address, 500)));
  for (let round = 0; round < 3; round += 1) expect(await read12()).toEqual(addresses.map((address) => 100 + address));
  expect([server.connections, server.refused]).toEqual([1, 0]);
});

test('takes upper and lower case of a host for one device', async () => {
  const { server, read } = await bench(undefined, 1);
  expect(await Promise.all([read(1, 5_000, 'localhost'), read(2, 5_000, 'LOCALHOST')])).toEqual([101, 102]);
  expect(server.connections).toBe(1);
});

test('closes the connection with the sources', async () => {
  const { server, devices, read } = await bench();
  await read(1);
  expect(server.open).toBe(1);
  devices[Symbol.dispose]();
  while (server.open > 0) await systemClock.sleep(5, AbortSignal.timeout(60_000));
});

describe('a connection that the device ends', () => {
  test('unused is opened again, and no reading is lost', async () => {
    const { server, read } = await bench(undefined, 1);
    for (let round = 0; round < 3; round += 1) {
      expect(await read(round)).toBe(100 + round);
      server.hangUp();
      while (server.open > 0) await systemClock.sleep(5, AbortSignal.timeout(60_000));
    }
    expect(server.connections).toBe(3);
  });

  test.each(['close', 'reset'] as const)('in the middle of a request (%s) is opened once more', async (end) => {
    const { server, read } = await bench((index) => (index === 1 ? { end } : {}));
    expect([await read(1), await read(2)]).toEqual([101, 102]);
    expect(server.asked).toEqual([1, 2, 2]);
  });

  test.each([
    ['close', /closed the connection without an answer/],
    ['reset', /ECONNRESET/],
  ] as const)('at each request (%s) is an error', async (end, why) => {
    const { read } = await bench(() => ({ end }));
    await expect(read(1)).rejects.toMatchObject({ code: 'source-failed', message: why });
  });
});

describe('an answer that comes after its timeout', () => {
  test('is never taken for another one', async () => {
    const { read } = await bench((index) => ({ delayMs: index % 3 === 1 ? 900 : 1 }));
    const outcomes: unknown[] = [];
    for (let address = 0; address < 9; address += 1) {
      outcomes.push(await read(address, 600).catch((error: unknown) => String(error)));
    }
    const late = expect.stringContaining('unit 1: no answer within 600 ms') as string;
    expect(outcomes).toEqual([100, late, 102, 103, late, 105, 106, late, 108]);
  });

  test('or with another number is named', async () => {
    const renumbered = (frame: Buffer): Buffer => {
      frame.writeUInt16BE(0x1234, 0);
      return frame;
    };
    const { read } = await bench(() => ({ spoil: renumbered }));
    await expect(read(1, 100)).rejects.toMatchObject({
      code: 'source-timeout',
      message: expect.stringMatching(
        /no answer within 100 ms to transaction 1, but one to transaction 4660$/,
      ) as string,
    });
  });

  test('among endless ones with other numbers ends the connection', async () => {
    const flooded = (frame: Buffer): Buffer => {
      frame.writeUInt16BE(0x1234, 0);
      return Buffer.concat(Array.from({ length: 200 }, () => frame));
    };
    const { read } = await bench(() => ({ spoil: flooded }));
    await expect(read(1, 5_000)).rejects.toThrow('101 answers to other requests');
  });

  test('on the same connection is left out by its number', async () => {
    const old = (frame: Buffer): Buffer => {
      const before = Buffer.from(frame);
      before.writeUInt16BE(before.readUInt16BE(0) - 1, 0);
      before.writeUInt16BE(7, 9);
      return Buffer.concat([before, frame]);
    };
    const { server, read } = await bench(() => ({ spoil: old }));
    expect([await read(1), await read(2)]).toEqual([101, 102]);
    expect(server.connections).toBe(1);
  });
});

test.each([
  ['another unit', (frame: Buffer) => (frame.writeUInt8(9, 6), frame), 'unit 9 answered a request to unit 1'],
  ['another function', (frame: Buffer) => (frame.writeUInt8(4, 7), frame), 'an invalid answer'],
  ['no Modbus', () => Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n'), 'does not speak Modbus'],
])('refuses the answer of %s, and reads the next one', async (_, spoil, why) => {
  const { read } = await bench((index) => (index === 0 ? { spoil } : {}));
  await expect(read(1)).rejects.toThrow(why);
  expect(await read(2)).toBe(102);
});

test('does not ask a silent unit again and again while another one answers', async () => {
  const { server, devices } = await bench((index) => ({ isLost: index % 2 === 1 }));
  const read = async (number: number): Promise<unknown> =>
    devices
      .tcpSource(
        { host: '127.0.0.1', port: server.port, timeoutMs: 600 },
        { ...register, unit: number, address: number },
      )
      .read(forever);
  for (let round = 0; round < 2; round += 1) {
    expect(await read(1)).toBe(101);
    await expect(read(2)).rejects.toMatchObject({ code: 'source-timeout' });
  }
  expect(await read(1)).toBe(101);
  await expect(read(2)).rejects.toMatchObject({ code: 'source-timeout' });
  expect(server.asked).toEqual([1, 2, 1, 2, 1]);
});

// Regression: the timeout of a silent unit closed the connection, which the gateway needed a second to release.
test('keeps the connection of a gateway whose one unit is silent', async () => {
  const { server, devices } = await bench((index) => ({ isLost: index % 2 === 1 }), 1);
  const read = async (number: number, timeoutMs: number): Promise<unknown> =>
    devices
      .tcpSource({ host: '127.0.0.1', port: server.port, timeoutMs }, { ...register, unit: number, address: number })
      .read(forever);
  for (let round = 0; round < 2; round += 1) {
    expect(await read(1, 5_000)).toBe(101);
    await expect(read(2, 300)).rejects.toMatchObject({ code: 'source-timeout' });
  }
  expect([await read(1, 5_000), server.connections]).toEqual([101, 1]);
});

test('waits for the connection of a device that releases it late', async () => {
  const { server, read } = await bench(undefined, 1);
  const other = connect(server.port, '127.0.0.1');
  await once(other, 'connect');
  const reading = read(1);
  while (server.refused < 3) await systemClock.sleep(5, AbortSignal.timeout(60_000));
  other.destroy();
  expect(await reading).toBe(101);
});

test('names the unit that a gateway reports as missing, and keeps the connection', async () => {
  const missing = (frame: Buffer): Buffer => {
    frame.writeUInt8(frame.readUInt8(7) | 0x80, 7);
    frame.writeUInt8(11, 8);
    return frame.subarray(0, 9).fill(3, 5, 6);
  };
  const { server, read } = await bench((index) => (index < 2 ? { spoil: missing } : {}));
  const error = { code: 'source-failed', message: 'modbus unit 1: the unit behind the gateway is not responding' };
  await expect(read(1)).rejects.toMatchObject(error);
  await expect(read(2)).rejects.toMatchObject(error);
  expect([await read(3), server.connections]).toEqual([103, 1]);
});

test('waits before the first request of a connection to a device that loses it', async () => {
  const { server, read } = await bench();
  server.deafMs = 500;
  for (let lost = 0; lost < 2; lost += 1) await expect(read(1, 700)).rejects.toMatchObject({ code: 'source-timeout' });
  for (let round = 0; round < 2; round += 1) {
    expect(await read(round, 5_000)).toBe(100 + round);
    server.hangUp();
    while (server.open > 0) await systemClock.sleep(5, AbortSignal.timeout(60_000));
  }
  expect(server.connections).toBe(4);
});

test('starts the timeout of a request with its turn', async () => {
  const { read } = await bench(() => ({ delayMs: 250 }));
  expect(await Promise.all([0, 1, 2, 3, 4].map(async (address) => read(address, 1_000)))).toEqual([
    100, 101, 102, 103, 104,
  ]);
});

test('reports a missing device and a silent device', async () => {
  const { devices, read } = await bench(() => ({ isLost: true }));
  await expect(read(1, 50)).rejects.toMatchObject({ code: 'source-timeout' });
  const nobody = { host: '127.0.0.1', port: await freePort(), timeoutMs: 5_000 };
  const absent = devices.tcpSource(nobody, { ...register, address: 1 }).read(forever);
  await expect(absent).rejects.toMatchObject({ code: 'source-failed', message: /refused the connection/ });
});

test('ends with its signal, also while it waits for its turn', async () => {
  const { server, devices } = await bench(() => ({ isLost: true }));
  const ending = new AbortController();
  const source = devices.tcpSource(
    { host: '127.0.0.1', port: server.port, timeoutMs: 60_000 },
    { ...register, address: 1 },
  );
  const reads = [source.read(ending.signal), source.read(ending.signal)];
  while (server.asked.length === 0) await systemClock.sleep(5, AbortSignal.timeout(60_000));
  ending.abort(new Error('the agent stops'));
  for (const read of reads) await expect(read).rejects.toThrow('the agent stops');
});
