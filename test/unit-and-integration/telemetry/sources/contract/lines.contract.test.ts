import { SerialError } from '../../../../../src/serial/errors.ts';
import { abortable } from '../../../../../src/system/abortable.ts';
import type { OpenSerialLine } from '../../../../../src/telemetry/ports.ts';
import { ModbusDevices } from '../../../../../src/telemetry/sources/modbus/modbus.ts';
import { serialSource } from '../../../../../src/telemetry/sources/serial.ts';
import { RtuBus } from '../../../../fakes/modbus/rtu-bus.ts';
import type { Conduct as BusConduct } from '../../../../fakes/modbus/rtu-bus.ts';
import { sourceContract, timeoutMs } from './source-contract.ts';
import type { Conduct } from './source-contract.ts';

const gone = async (): Promise<never> => Promise.reject(new SerialError('port-missing', 'no such port'));
const noise = Uint8Array.from({ length: 300 }, (_, index) => (index * 89 + 5) & 0xff);

sourceContract('serial', async () => {
  let present: Conduct = 'works';
  const bytes = {
    works: Buffer.from('7\n'),
    garbage: Buffer.concat([noise, Buffer.from('\n')]),
    overflow: Buffer.alloc(65_536, '9'),
  };
  const read = async (_: number, signal: AbortSignal): Promise<Uint8Array> =>
    present === 'silent' || present === 'gone' ? abortable(new Promise<never>(() => {}), signal) : bytes[present];
  const openLine: OpenSerialLine = async (_, __, signal) => {
    signal.throwIfAborted();
    if (present === 'gone') return gone();
    let isQuiet = present === 'works'; // it was opened between two lines
    const readAfterQuiet: typeof read = async (...waiting) => {
      if (!isQuiet) return read(...waiting);
      isQuiet = false;
      return Buffer.alloc(0);
    };
    return { write: async () => {}, read: readAfterQuiet, [Symbol.asyncDispose]: async () => {} };
  };
  const port = { port: '/dev/ttyX', baud: 9_600, parity: 'none', pattern: undefined, idleTimeoutMs: 3_000 } as const;
  return { source: serialSource(port, openLine), conduct: (conduct) => void (present = conduct) };
});

const register = { unit: 1, table: 'holding', address: 0, type: 'u16', byteOrder: 'big', wordOrder: 'big' } as const;

sourceContract('modbus-rtu', async (stack) => {
  let present: Conduct = 'works';
  const conducts: Readonly<Record<Conduct, BusConduct>> = {
    works: {},
    silent: { isLost: true },
    garbage: { spoil: () => noise },
    overflow: { lead: Buffer.alloc(100_000, 1), isLost: false },
    gone: {},
  };
  const bus = new RtuBus(new Map([[1, { holding: () => 7 }]]), () => conducts[present]);
  const openLine: OpenSerialLine = async (...port) => (present === 'gone' ? gone() : bus.open(...port));
  const devices = stack.use(new ModbusDevices(openLine, bus.clock));
  const address = { port: '/dev/ttyX', baud: 9_600, parity: 'even', timeoutMs } as const;
  return { source: devices.rtuSource(address, register), conduct: (conduct) => void (present = conduct) };
});
