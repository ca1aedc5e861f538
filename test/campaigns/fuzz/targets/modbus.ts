import fc from 'fast-check';

import { systemClock } from '../../../../src/system/time/clock.ts';
import { requestPdu, rtuFrame } from '../../../../src/telemetry/sources/modbus/modbus-codec.ts';
import type { ModbusRegister } from '../../../../src/telemetry/sources/modbus/modbus-codec.ts';
import { ModbusDevices } from '../../../../src/telemetry/sources/modbus/modbus.ts';
import type { PolledSource } from '../../../../src/telemetry/sources/source.ts';
import { RtuBus } from '../../../fakes/modbus/rtu-bus.ts';
import type { Conduct } from '../../../fakes/modbus/rtu-bus.ts';
import { ModbusTcpServer } from '../../../fakes/modbus/tcp-server.ts';
import type { TcpConduct } from '../../../fakes/modbus/tcp-server.ts';
import { edited, edits } from '../mutation.ts';
import { openTarget, outcomeOf } from '../target.ts';
import type { CaseOf, FuzzTarget } from '../target.ts';

const forever = new AbortController().signal;
const registers = [1, 2].flatMap((unit) => [
  register(unit, 0, 'u16'),
  register(unit, 1, 'u32'),
  register(unit, 16, 'f32'),
  register(unit, 32, 'u64'),
]);
const unit = (number: number) => ({ holding: (address: number): number => 1_000 * number + address });

type Sourced = (register: ModbusRegister) => PolledSource;

/** Reads each register some times, all of them together. Throws if one yields the value of another register. */
async function readAll(
  from: readonly ModbusRegister[],
  source: Sourced,
  rounds: number,
  areExact = true,
): Promise<void> {
  const readOne = async (register: ModbusRegister): Promise<void> => {
    for (let round = 0; round < rounds; round += 1) {
      const outcome = await outcomeOf(async () => source(register).read(forever));
      const text = 'value' in outcome ? JSON.stringify(exactOf(outcome.value, register)) : undefined;
      if (!areExact || text === undefined || text === valueOf(register)) continue;
      throw new Error(`unit ${register.unit}, holding ${register.address} is ${text}`);
    }
  };
  await Promise.all(from.map(readOne));
}

/** The shortest decimal of a 32-bit float stands for that float. */
function exactOf(value: unknown, { type }: ModbusRegister): unknown {
  return type === 'f32' ? Math.fround(Number(value)) : value;
}

function register(unitNumber: number, address: number, type: ModbusRegister['type']): ModbusRegister {
  return { unit: unitNumber, table: 'holding', address, type, byteOrder: 'big', wordOrder: 'big' };
}

/** As the model holds it: each word is a thousand times the unit and the address. */
function valueOf({ unit: number, address, type }: ModbusRegister): string {
  const words = Array.from({ length: Number(type.slice(1)) / 16 }, (_, index) => unit(number).holding(address + index));
  const bytes = Buffer.alloc(words.length * 2);
  for (const [index, word] of words.entries()) bytes.writeUInt16BE(word, index * 2);
  if (type === 'f32') return JSON.stringify(bytes.readFloatBE());
  return words.reduce((sum, word) => sum * 65_536n + BigInt(word), 0n).toString();
}

const delays = fc.oneof(fc.nat(100), fc.integer({ min: 300, max: 700 }), fc.integer({ min: 700, max: 4_800 }));
/** Frames of other units, other requests and another master. A forged answer to the same request is like the right one. */
const foreign = fc.oneof(
  fc.constantFrom<Uint8Array>(
    rtuFrame(7, Uint8Array.of(3, 2, 0, 9)),
    rtuFrame(1, Uint8Array.of(4, 2, 0, 9)),
    rtuFrame(2, Uint8Array.of(3, 10, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5)),
    rtuFrame(7, requestPdu(register(7, 3, 'u16'))),
  ),
  fc.uint8Array({ maxLength: 12 }),
);
/** Damage that a CRC always detects. */
const damage = fc.record({ flips: fc.array(fc.nat(), { minLength: 1, maxLength: 3 }), cut: fc.nat(3) });
const rtuConducts = fc.array(
  fc.record(
    {
      delayMs: delays,
      isLost: fc.constant(true),
      isEchoed: fc.constant(true),
      lead: foreign,
      stray: fc.array(fc.record({ afterMs: fc.nat(3_000), bytes: foreign }), { maxLength: 2 }),
      pieceBytes: fc.integer({ min: 1, max: 8 }),
      pauseMs: fc.integer({ min: 2, max: 120 }),
      damage,
    },
    { requiredKeys: [] },
  ),
  { minLength: 1, maxLength: 12 },
);

/** Units that answer each request twice, the whole time. */
const doubled = fc.option(fc.integer({ min: 0, max: 900 }), { nil: undefined });
/** The delay of some answers on a line without other masters, whose answers look the same. */
const veryLate = fc.option(fc.integer({ min: 4_800, max: 12_000 }), { nil: undefined });
/** The delay of the answers to an agent that has ended, on such a line. */
const owedMs = fc.array(fc.nat(2_400), { maxLength: 2 });
const lines = fc.record({ conducts: rtuConducts, againMs: doubled, lateMs: veryLate, owedMs });

/** Late, echoed, interleaved, doubled, foreign and damaged answers on a serial line: no register yields the value of another one. */
export const modbusLine: FuzzTarget = {
  name: 'modbus-line',
  open: async () =>
    openTarget(lines, async ({ conducts, againMs, lateMs, owedMs }) => {
      const owed = lateMs === undefined ? [] : owedMs;
      const bus = new RtuBus(new Map([1, 2].map((number) => [number, unit(number)])), (request) => {
        if (request < owed.length) return { delayMs: owed[request] ?? 0 };
        const conduct = conducts[request % conducts.length] ?? {};
        if (lateMs !== undefined) return lateOf(conduct, lateMs);
        // a damaged answer with a whole copy looks like one answer, and a copy five seconds late is too late to be expected
        if (againMs === undefined) return conductOf(conduct);
        const { damage: _, pauseMs: __, delayMs = 0, ...undamaged } = conduct;
        return { ...undamaged, delayMs: Math.min(delayMs, 700), againMs };
      });
      using devices = new ModbusDevices(bus.open, bus.clock);
      const wire = { port: '/dev/none', baud: 9_600, parity: 'even', timeoutMs: 500 } as const;
      await using before = await bus.open(wire.port, wire, forever);
      for (const _ of owed) await before.write(rtuFrame(1, requestPdu(register(1, 50, 'u16'))), forever);
      await readAll(registers, (register) => devices.rtuSource(wire, register), 3);
    }),
};

function lateOf({ delayMs = 0, isLost, isEchoed, pieceBytes }: Conduct, lateMs: number): Conduct {
  return {
    delayMs: delayMs > 700 ? lateMs : delayMs,
    ...(isLost && { isLost }),
    ...(isEchoed && { isEchoed }),
    ...(pieceBytes && { pieceBytes }),
  };
}

/** With pauses, an answer ends in the time in which it may be late. */
function conductOf({ damage: damaged, ...given }: CaseOf<typeof rtuConducts>[number]): Conduct {
  const { pauseMs, delayMs = 0 } = given;
  const conduct = pauseMs === undefined ? given : { ...given, delayMs: Math.min(delayMs, 700) };
  if (damaged === undefined) return conduct;
  const spoil = (frame: Buffer): Uint8Array => {
    for (const bit of new Set(damaged.flips.map((flip) => flip % (frame.byteLength * 8)))) {
      frame[bit >> 3] = (frame[bit >> 3] ?? 0) ^ (1 << (bit & 7));
    }
    return frame.subarray(0, frame.byteLength - damaged.cut);
  };
  return { ...conduct, spoil };
}

const tcpConducts = fc.record({
  most: fc.constantFrom(1, 10),
  conducts: fc.array(
    fc.record(
      {
        delayMs: fc.constantFrom(5, 60),
        isLost: fc.constant(true),
        end: fc.constantFrom('close', 'reset'),
        before: fc.integer({ min: 1, max: 9 }),
        changes: edits,
      },
      { requiredKeys: [] },
    ),
    { minLength: 1, maxLength: 8 },
  ),
});
const TIMEOUT_MS = 40;

/** The same behind TCP, with connections that end at any time. A changed answer has no checksum: only its end counts. */
export const modbusTcp: FuzzTarget = {
  name: 'modbus-tcp',
  open: async () =>
    openTarget(tcpConducts, async ({ most, conducts }) => {
      const conduct = (request: number): TcpConduct => tcpConductOf(conducts[request % conducts.length] ?? {});
      await using server = await ModbusTcpServer.start(unit(1), conduct, most);
      using devices = new ModbusDevices(() => Promise.reject(new Error('this target opens no line')), systemClock);
      const address = { host: '127.0.0.1', port: server.port, timeoutMs: TIMEOUT_MS };
      const areExact = conducts.every(({ changes }) => changes === undefined);
      const ofOne = registers.filter((register) => register.unit === 1);
      await readAll(ofOne, (register) => devices.tcpSource(address, register), 1, areExact);
    }),
};

function tcpConductOf({ before, changes, ...conduct }: CaseOf<typeof tcpConducts>['conducts'][number]): TcpConduct {
  const spoil = (frame: Buffer): Uint8Array => {
    const old = Buffer.from(frame);
    old.writeUInt16BE((old.readUInt16BE(0) - (before ?? 0)) & 0xffff, 0);
    old.fill(0, 9);
    return edited(before === undefined ? frame : Buffer.concat([old, frame]), changes ?? []);
  };
  return { ...conduct, spoil };
}
