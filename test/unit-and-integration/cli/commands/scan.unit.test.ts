import { describe, expect, test } from 'vitest';

import type { ScanReport } from '../../../../src/cli/context.ts';
import { TelemetryError } from '../../../../src/telemetry/errors.ts';
import type { ScanOrder } from '../../../../src/telemetry/scan/scan-result.ts';
import { ManualClock } from '../../../fakes/clock.ts';
import { type as typeAt } from '../fake-context.ts';

const found: ScanReport['found'] = [
  {
    title: 'bme280 in_temp',
    reading: '21.45',
    raw: '21450 m°C',
    unit: '°C',
    problem: undefined,
    toml: '[[sensors]]\nevent = "bme280_in_temp"\n',
  },
  {
    title: 'nct6793 temp1',
    reading: undefined,
    unit: '°C',
    problem: 'unreadable',
    why: 'it reports a fault',
    toml: '',
  },
  { title: '\u001B[31mred', reading: undefined, unit: undefined, problem: 'odd-name', toml: undefined },
];

async function scan(line: string, report: ScanReport = { found, isCut: false }, columns?: number) {
  const orders: ScanOrder[] = [];
  const clock = new ManualClock();
  const told = await typeAt(['sensors', 'scan', ...line.split(' ')], {
    ...(columns === undefined ? {} : { columns }),
    clock,
    scan: async (order, onAsked) => {
      orders.push(order);
      clock.advance(17_000);
      onAsked(17, 2);
      return report;
    },
  });
  return { ...told, orders };
}

describe('agent sensors scan', () => {
  test.each<[string, ScanOrder]>([
    ['hwmon', { kind: 'hwmon' }],
    ['modbus /dev/ttyUSB0', { kind: 'modbus-rtu', port: '/dev/ttyUSB0', baud: 9_600, parity: 'even' }],
    [
      'modbus /dev/ttyUSB0 --baud 19200 --parity none',
      { kind: 'modbus-rtu', port: '/dev/ttyUSB0', baud: 19_200, parity: 'none' },
    ],
    ['modbus plc.example', { kind: 'modbus-tcp', host: 'plc.example', port: 502 }],
    ['modbus 10.0.0.7:1502', { kind: 'modbus-tcp', host: '10.0.0.7', port: 1_502 }],
    ['modbus [fe80::1]:1502', { kind: 'modbus-tcp', host: 'fe80::1', port: 1_502 }],
  ])('%s looks where it was told', async (line, order) => {
    expect((await scan(line)).orders).toEqual([order]);
  });

  test.each([
    ['modbs', 'unknown kind "modbs": expected modbus, hwmon, thermal, iio, w1, serial; did you mean modbus?'],
    ['hwmon /dev/x', '/dev/x is unexpected: only modbus has a PLACE'],
    ['iio --baud 9600', '--baud is an option of'],
    ['modbus', 'modbus needs a PLACE'],
    ['modbus h:0', 'the port of h:0 is not a number from 1 to 65535'],
    ['modbus h:187777', 'the port of h:187777 is not a number from 1 to 65535'],
    ['modbus http://h', 'http://h is neither a serial port'],
    ['modbus h --parity none', '--parity is an option of a serial port, and h is not one'],
    ['modbus /dev/t --baud 9.6', '--baud 9.6 is not a whole number from 50 to 4000000'],
    ['modbus /dev/t --baud 1', '--baud 1 is not a whole number'],
    ['modbus /dev/t --parity mark', '--parity mark is not even, odd or none'],
  ])('%s is an error of usage', async (line, told) => {
    const { exitCode, err, orders } = await scan(line);
    expect(exitCode).toBe(64);
    expect(err).toContain(told);
    expect(orders).toEqual([]);
  });

  test('prints TOML in which everything else is a comment, with nothing unprintable', async () => {
    const { out, exitCode } = await scan('iio');
    expect(exitCode).toBe(0);
    expect(out).toBe(
      [
        '# iio: 3 found.',
        '# Nothing was written. Copy the tables you need into the configuration and run: agent config check',
        '',
        '# bme280 in_temp: 21.45 °C (read 21450 m°C)',
        '[[sensors]]',
        'event = "bme280_in_temp"',
        '',
        '# nct6793 temp1; could not be read now: it reports a fault',
        '',
        '',
        String.raw`# \x1b[31mred; cannot be configured under this name`,
        '',
      ].join('\n'),
    );
  });

  test('without results names the searched places', async () => {
    expect((await scan('w1', { found: [], isCut: false })).out).toMatch(/^# w1: nothing found\. Thermometers are in/);
  });

  test('tells a program the same in a closed set of words', async () => {
    expect(JSON.parse((await scan('iio --json')).out)).toMatchObject({
      kind: 'iio',
      isCut: false,
      found: [{ unit: '°C' }, { problem: 'unreadable' }, { problem: 'odd-name' }],
    });
  });

  test('shows at a terminal how far it is, until it is done', async () => {
    const { context } = await scan('modbus h', { found, isCut: true }, 60);
    expect(context.err.pinned[0]).toBe(
      'Probed unit 17 of 247; 2 responded. About 3 min 50 s left. Ctrl-C stops the scan',
    );
    expect(context.err.pinned.at(-1)).toBeUndefined();
    expect(context.out.text).toContain('# More were found');
  });

  test('fails as the place does, and leaves no line behind', async () => {
    const { exitCode, context } = await typeAt(['sensors', 'scan', 'modbus', 'h'], {
      columns: 60,
      scan: async (_order, onAsked) => {
        onAsked(1, 0);
        throw new TelemetryError('source-failed', 'h: nobody is there');
      },
    });
    expect(exitCode).toBe(70);
    expect(context.err.pinned.at(-1)).toBeUndefined();
  });
});
