import { expect, test } from 'vitest';

import { SerialError } from '../../../../src/serial/errors.ts';
import type { OpenSerialLine, SerialLine } from '../../../../src/telemetry/ports.ts';
import { scanModbus } from '../../../../src/telemetry/scan/scan-modbus.ts';
import { rtuFrame } from '../../../../src/telemetry/sources/modbus/modbus-codec.ts';

const forever = new AbortController().signal;
const place = { kind: 'modbus-rtu', port: '/dev/ttyUSB0', baud: 9_600, parity: 'even' } as const;
const value = Buffer.of(3, 2, 0, 42);
const noSuchAddress = Buffer.of(0x83, 2);
const nobodyThere = Buffer.of(0x83, 11);

/** A line on which these units answer with these bytes; `late`: bytes before the next request. */
function line(answers: ReadonlyMap<number, Uint8Array>, late = new Map<number, Uint8Array>()) {
  const asked: number[] = [];
  let waiting: Uint8Array[] = [];
  const port: SerialLine = {
    write: async (frame) => {
      const [unit = 0] = frame;
      asked.push(unit);
      const answer = answers.get(unit);
      if (answer !== undefined) waiting.push(rtuFrame(unit, answer));
    },
    read: async (timeoutMs) => {
      const chunk = waiting.shift() ?? Buffer.alloc(0);
      const [unit = 0] = asked.slice(-1);
      const more = late.get(unit);
      if (chunk.byteLength === 0 && timeoutMs > 0 && more !== undefined) waiting = [rtuFrame(unit, more)];
      return chunk;
    },
    [Symbol.asyncDispose]: async () => {},
  };
  const open: OpenSerialLine = async () => port;
  return { open, asked };
}

test('each unit is polled once; a value or an exception proves a device, and a gateway’s exception does not', async () => {
  const { open, asked } = line(
    new Map([
      [7, value],
      [9, noSuchAddress],
      [20, nobodyThere],
    ]),
  );
  const told: (readonly [number, number])[] = [];
  const { found, isCut } = await scanModbus(place, open, (unit, count) => told.push([unit, count]), forever);
  expect(asked).toEqual(Array.from({ length: 247 }, (_, index) => index + 1));
  expect(found.map(({ sensor }) => sensor)).toEqual(
    [7, 9].map((unit) => ({
      event: `modbus_unit_${unit}`,
      every: '10s',
      source: { ...place, unit, table: 'holding', address: 0 },
    })),
  );
  expect([isCut, told.at(-1)]).toEqual([false, [247, 2]]);
});

test('a late reply is not matched to the next unit, and costs it nothing', async () => {
  const { open } = line(new Map([[8, value]]), new Map([[7, value]]));
  const { found } = await scanModbus(place, open, () => {}, forever);
  expect(found.map(({ title }) => title)).toEqual(['/dev/ttyUSB0 unit 8']);
});

test('a device that answers for every unit is listed once, with a note', async () => {
  const everybody = new Map(Array.from({ length: 247 }, (_, index) => [index + 1, value]));
  const { found } = await scanModbus(place, line(everybody).open, () => {}, forever);
  expect(found).toMatchObject([{ title: '/dev/ttyUSB0 unit 1', problem: 'any-unit' }]);
});

test('no more than some are proposed', async () => {
  const many = new Map(Array.from({ length: 100 }, (_, index) => [index + 1, value]));
  const { found, isCut } = await scanModbus(place, line(many).open, () => {}, forever);
  expect([found.length, isCut]).toEqual([32, true]);
});

test('a missing port, or one that disappears, is reported immediately', async () => {
  const gone = new SerialError('port-missing', 'it has gone');
  const missing: OpenSerialLine = async () => Promise.reject(gone);
  await expect(scanModbus(place, missing, () => {}, forever)).rejects.toBe(gone);
  const { open, asked } = line(new Map());
  const unplugged: OpenSerialLine = async (...port) => {
    const opened = await open(...port);
    return { ...opened, read: async () => Promise.reject(gone), [Symbol.asyncDispose]: async () => {} };
  };
  await expect(scanModbus(place, unplugged, () => {}, forever)).rejects.toBe(gone);
  expect(asked.length).toBeLessThan(2);
});

test('stops on request', async () => {
  const ending = new AbortController();
  const { open, asked } = line(new Map());
  const scanned = scanModbus(place, open, (unit) => unit === 5 && ending.abort(new Error('enough')), ending.signal);
  await expect(scanned).rejects.toThrow('enough');
  expect(asked.length).toBeLessThan(7);
});
