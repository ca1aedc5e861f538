import { requestPdu } from '../../../../../src/telemetry/sources/modbus/modbus-codec.ts';
import { RtuLine } from '../../../../../src/telemetry/sources/modbus/rtu.ts';
import type { RtuRequest } from '../../../../../src/telemetry/sources/modbus/rtu.ts';
import { RtuBus } from '../../../../fakes/modbus/rtu-bus.ts';
import type { Conduct } from '../../../../fakes/modbus/rtu-bus.ts';

export const forever = new AbortController().signal;
export const register = { table: 'holding', type: 'u16', byteOrder: 'big', wordOrder: 'big' } as const;

export function request(address: number, unit = 1, timeoutMs = 500): RtuRequest {
  const pdu = requestPdu({ ...register, unit, address });
  return { port: '/dev/ttyUSB0', baud: 9_600, parity: 'even', unit, pdu, timeoutMs };
}

/** Register N of unit U holds 1000 U + N. */
export function newBench(conduct?: (request: number, code: number) => Conduct, units: readonly number[] = [1, 2]) {
  const bus = new RtuBus(
    new Map(units.map((unit) => [unit, { holding: (address) => 1_000 * unit + address }])),
    conduct,
  );
  const line = new RtuLine(bus.open, bus.clock);
  const read = async (address: number, unit = 1, timeoutMs = 500): Promise<number> => {
    const pdu = await line.ask(request(address, unit, timeoutMs), forever);
    return Buffer.from(pdu).readUInt16BE(2);
  };
  return { bus, line, read };
}

/** A line on which each unit has answered a request, so that none is watched. Its requests begin at 0. */
export async function bench(conduct: (request: number, code: number) => Conduct = () => ({}), units = [1, 2]) {
  let isProved = false;
  const made = newBench((request, code) => (isProved ? conduct(request, code) : {}), units);
  for (const unit of units) await made.read(0, unit);
  isProved = true;
  made.bus.asked.length = 0;
  const startMs = made.bus.clock.monotonicMs();
  return { ...made, msSince: () => made.bus.clock.monotonicMs() - startMs };
}

export type Bench = Pick<ReturnType<typeof newBench>, 'bus' | 'read'>;

/** Reads some registers of a unit at an interval, as that many sensors do; returns what each of them yielded. */
export async function poll(
  { bus, read }: Bench,
  registers: number,
  rounds: number,
  unit = 1,
): Promise<(number | string)[][]> {
  const poller = async (address: number): Promise<(number | string)[]> => {
    const yielded: (number | string)[] = [];
    await bus.clock.sleep(address * 300, forever);
    for (let round = 0; round < rounds; round += 1) {
      yielded.push(await read(address, unit).catch((error: unknown) => String(error)));
      await bus.clock.sleep(700, forever);
    }
    return yielded;
  };
  return Promise.all(Array.from({ length: registers }, async (_, address) => poller(address)));
}
