import { Dialing } from '../../system/dialing.ts';
import { describeError } from '../../system/errors.ts';
import { Deadline } from '../../system/time/deadline.ts';
import { TelemetryError } from '../errors.ts';
import type { OpenSerialLine, SerialLine } from '../ports.ts';
import { requestPdu } from '../sources/modbus/modbus-codec.ts';
import type { ModbusRegister } from '../sources/modbus/modbus-codec.ts';
import { askByRtu, askByTcp } from '../sources/modbus/modbus.ts';
import type { Found, ModbusPlace, OnAsked, ScanResult } from './found.ts';

const FIRST_UNIT = 1;
const LAST_UNIT = 247;
/** The deadline for the very first connection. */
const CONNECT_MS = 5_000;
const TCP_MS = 500;
/** At 9600 baud a request and its answer take 20 ms; the rest is for the device. */
const RTU_MS = 300;
const MAX_DRAINED = 16;
const MAX_FOUND = 32;

/** Modbus Application Protocol V1.1b3, 7: exceptions of a gateway to other units, where no unit is. */
const gatewayExceptions: ReadonlySet<number> = new Set([10, 11]);

/** Any register works, since a device also answers for one that it does not have. */
const probe: ModbusRegister = {
  unit: FIRST_UNIT,
  table: 'holding',
  address: 0,
  type: 'u16',
  byteOrder: 'big',
  wordOrder: 'big',
};

type Ask = (unit: number, signal: AbortSignal) => Promise<Uint8Array>;

/** Asks each unit address once. Throws AgentError if no unit can be asked at all. */
export async function scanModbus(
  place: ModbusPlace,
  openLine: OpenSerialLine,
  onAsked: OnAsked,
  signal: AbortSignal,
): Promise<ScanResult> {
  if (place.kind === 'modbus-tcp') {
    const { host, port } = place;
    await reach(host, port, signal);
    const ask: Ask = async (unit, ending) =>
      askByTcp({ host, port, transaction: unit, unit }, requestPdu(probe), ending);
    return answering(place, await askAll(ask, TCP_MS, onAsked, signal));
  }
  await using line = await openLine(place.port, place, signal);
  const ask: Ask = async (unit, ending) => {
    await drain(line, ending);
    return askByRtu(line, { unit, timeoutMs: RTU_MS }, requestPdu(probe), ending);
  };
  return answering(place, await askAll(ask, 2 * RTU_MS, onAsked, signal));
}

/** Throws TelemetryError if nobody listens. */
async function reach(host: string, port: number, signal: AbortSignal): Promise<void> {
  const dialing = new Dialing({ host, port });
  const late = (): Error =>
    new TelemetryError('source-timeout', `${host}:${port} does not answer within ${CONNECT_MS} ms${dialing.answers}`);
  using deadline = new Deadline(CONNECT_MS, late, signal);
  try {
    (await dialing.open(deadline.signal)).destroy();
  } catch (error) {
    deadline.signal.throwIfAborted();
    const message = `modbus ${host}:${port}: ${describeError(error)}`;
    throw new TelemetryError('source-failed', message, error, 'check the address, the port, and the way there');
  }
}

/** Drops an answer that came too late, so that the next request does not get it. */
async function drain(line: SerialLine, signal: AbortSignal): Promise<void> {
  for (let count = 0; count < MAX_DRAINED && (await line.read(0, signal)).byteLength > 0;) count += 1;
}

async function askAll(ask: Ask, eachMs: number, onAsked: OnAsked, signal: AbortSignal): Promise<readonly number[]> {
  const units: number[] = [];
  for (let unit = FIRST_UNIT; unit <= LAST_UNIT; unit += 1) {
    if (await answers(ask, unit, eachMs, signal)) units.push(unit);
    onAsked(unit, units.length);
  }
  return units;
}

/** Whether a unit answers. A port that has gone is an error. */
async function answers(ask: Ask, unit: number, ms: number, signal: AbortSignal): Promise<boolean> {
  const late = (): Error => new TelemetryError('source-timeout', `modbus unit ${unit}: no answer within ${ms} ms`);
  using deadline = new Deadline(ms, late, signal);
  try {
    const [code = 0, exception = 0] = await ask(unit, deadline.signal);
    return (code & 0x80) === 0 || !gatewayExceptions.has(exception);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof TelemetryError) return false;
    throw error;
  }
}

function answering(place: ModbusPlace, units: readonly number[]): ScanResult {
  if (units.length === LAST_UNIT) return { found: [foundUnit(place, FIRST_UNIT, 'any-unit')], isCut: false };
  return {
    found: units.slice(0, MAX_FOUND).map((unit) => foundUnit(place, unit, undefined)),
    isCut: units.length > MAX_FOUND,
  };
}

function foundUnit(place: ModbusPlace, unit: number, problem: 'any-unit' | undefined): Found {
  const { kind, ...line } = place;
  const source = { kind, ...line, unit, table: 'holding', address: 0 };
  const where = place.kind === 'modbus-tcp' ? `${place.host}:${place.port}` : place.port;
  const sensor = { event: `modbus_unit_${unit}`, every: '10s', source };
  return { title: `${where} unit ${unit}`, sensor, reading: undefined, unit: undefined, problem };
}
