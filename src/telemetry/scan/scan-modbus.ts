import { Dialing } from '../../system/dialing.ts';
import type { Destination } from '../../system/dialing.ts';
import { AgentError, describeError, valueOrError } from '../../system/errors.ts';
import { systemClock } from '../../system/time/clock.ts';
import { Deadline } from '../../system/time/deadline.ts';
import { TelemetryError } from '../errors.ts';
import type { OpenSerialLine } from '../ports.ts';
import { requestPdu } from '../sources/modbus/modbus-codec.ts';
import type { ModbusRegister } from '../sources/modbus/modbus-codec.ts';
import { askByRtu, requireAnswer } from '../sources/modbus/rtu.ts';
import { TcpDevice } from '../sources/modbus/tcp.ts';
import type { ScanCandidate, ModbusPlace, OnProbe, ScanResult } from './scan-result.ts';

const FIRST_UNIT = 1;
const LAST_UNIT = 247;
/** The deadline for the very first connection. */
const CONNECT_MS = 5_000;
/** Longer than a gateway waits for a unit: while it waits, it answers for no other one. */
const GATEWAY_MS = 5_000;
/** A host that leaves this number of requests in a row unanswered does not report missing units. */
const MAX_SILENT = 3;
const SILENT_MS = 1_000;
/** At 9600 baud a request and its answer take 20 ms; the rest is for the device. */
const RTU_MS = 300;
const MAX_FOUND = 32;

/** Any register works, since a device also answers for one that it does not have. */
const probe: ModbusRegister = {
  unit: FIRST_UNIT,
  table: 'holding',
  address: 0,
  type: 'u16',
  byteOrder: 'big',
  wordOrder: 'big',
};

/** Returns the answer of a unit, or the reason why there is none. */
type Ask = (unit: number) => Promise<Uint8Array | AgentError>;

/** Sends one request to each unit address. Throws AgentError if the line or host is unreachable. */
export async function scanModbus(
  place: ModbusPlace,
  openLine: OpenSerialLine,
  onAsked: OnProbe,
  signal: AbortSignal,
): Promise<ScanResult> {
  const pdu = requestPdu(probe);
  if (place.kind === 'modbus-tcp') {
    using device = new TcpDevice(place, systemClock);
    await reach(place, signal);
    let silent = 0;
    const ask: Ask = async (unit) => {
      const timeoutMs = silent < MAX_SILENT ? GATEWAY_MS : SILENT_MS;
      const answer = await valueOrError(device.ask({ unit, pdu, timeoutMs }, signal));
      silent = answer instanceof AgentError && answer.code === 'source-timeout' ? silent + 1 : 0;
      return answer;
    };
    return answering(place, await askAll(ask, onAsked, signal));
  }
  await using line = await openLine(place.port, place, signal);
  const ask: Ask = async (unit) => {
    const request = { ...place, unit, pdu, timeoutMs: RTU_MS };
    const answered = askByRtu(line, request, systemClock, signal).then((heard) => requireAnswer(request, heard));
    return valueOrError(answered);
  };
  return answering(place, await askAll(ask, onAsked, signal));
}

/** Throws TelemetryError if no server listens. */
async function reach({ host, port }: Destination, signal: AbortSignal): Promise<void> {
  const dialing = new Dialing({ host, port });
  const late = (): Error =>
    new TelemetryError('source-timeout', `${host}:${port} is not responding within ${CONNECT_MS} ms${dialing.answers}`);
  using deadline = new Deadline(CONNECT_MS, late, signal);
  try {
    (await dialing.open(deadline.signal)).destroy();
  } catch (error) {
    deadline.signal.throwIfAborted();
    const message = `modbus ${host}:${port}: ${describeError(error)}`;
    throw new TelemetryError('source-failed', message, error, 'check the address, the port, and the way there');
  }
}

async function askAll(ask: Ask, onAsked: OnProbe, signal: AbortSignal): Promise<readonly number[]> {
  const units: number[] = [];
  for (let unit = FIRST_UNIT; unit <= LAST_UNIT; unit += 1) {
    const answer = await ask(unit);
    signal.throwIfAborted();
    if (!(answer instanceof AgentError)) units.push(unit);
    else if (!(answer instanceof TelemetryError)) throw answer; // the port has gone
    onAsked(unit, units.length);
  }
  return units;
}

function answering(place: ModbusPlace, units: readonly number[]): ScanResult {
  if (units.length === LAST_UNIT) return { found: [foundUnit(place, FIRST_UNIT, 'any-unit')], isCut: false };
  return {
    found: units.slice(0, MAX_FOUND).map((unit) => foundUnit(place, unit, undefined)),
    isCut: units.length > MAX_FOUND,
  };
}

function foundUnit(place: ModbusPlace, unit: number, problem: 'any-unit' | undefined): ScanCandidate {
  const { kind, ...line } = place;
  const source = { kind, ...line, unit, table: 'holding', address: 0 };
  const where = place.kind === 'modbus-tcp' ? `${place.host}:${place.port}` : place.port;
  const sensor = { event: `modbus_unit_${unit}`, every: '10s', source };
  return { title: `${where} unit ${unit}`, sensor, reading: undefined, unit: undefined, problem };
}
