import type { Socket } from 'node:net';
import { addAbortSignal } from 'node:stream';

import { Dialing } from '../../../system/dialing.ts';
import { AgentError, describeError } from '../../../system/errors.ts';
import type { OpenSerialLine, SerialLine } from '../../ports.ts';
import { sourceFailed } from '../source.ts';
import type { PolledSource, Reading } from '../source.ts';
import {
  parsePdu,
  requestPdu,
  rtuFrame,
  rtuFrameLength,
  rtuPdu,
  tcpFrame,
  tcpFrameLength,
  tcpPdu,
} from './modbus-codec.ts';
import type { ModbusRegister } from './modbus-codec.ts';

/**
 * A register of a device that is reached by TCP. Each reading opens a connection, since many devices serve only one at
 * a time.
 */
export function modbusTcpSource(host: string, port: number, register: ModbusRegister): PolledSource {
  let transaction = 0;
  return {
    kind: 'polled',
    read: async (signal) => {
      transaction = (transaction + 1) & 0xffff;
      const { unit } = register;
      return parsePdu(await askByTcp({ host, port, transaction, unit }, requestPdu(register), signal), register);
    },
  };
}

export interface TcpUnit {
  readonly host: string;
  readonly port: number;
  readonly transaction: number;
  readonly unit: number;
}

/** Makes one request on a connection of its own. Throws TelemetryError. */
export async function askByTcp(
  { host, port, transaction, unit }: TcpUnit,
  request: Uint8Array,
  signal: AbortSignal,
): Promise<Uint8Array> {
  let socket: Socket | undefined;
  try {
    socket = addAbortSignal(signal, await new Dialing({ host, port }).open(signal));
    socket.write(tcpFrame(transaction, unit, request));
    return tcpPdu(await readFrame(socket, signal), transaction, unit);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof AgentError) throw error;
    throw sourceFailed(`modbus ${host}:${port}`, describeError(error), error);
  } finally {
    socket?.destroy();
  }
}

async function readFrame(socket: Socket, signal: AbortSignal): Promise<Uint8Array> {
  let bytes: Buffer = Buffer.alloc(0);
  for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
    signal.throwIfAborted();
    bytes = Buffer.concat([bytes, Buffer.from(chunk)]);
    const length = tcpFrameLength(bytes);
    if (bytes.byteLength >= length && bytes.byteLength > 7) return bytes.subarray(0, length);
  }
  throw sourceFailed('modbus', 'the device closed the connection without an answer');
}

export interface ModbusRtuSettings {
  readonly path: string;
  readonly baud: number;
  readonly parity: 'none' | 'even';
  readonly timeoutMs: number;
}

/** Serial lines that several registers share. Each line carries one request at a time. */
export class RtuBuses {
  readonly #openLine: OpenSerialLine;
  readonly #turns = new Map<string, Promise<void>>();

  constructor(openLine: OpenSerialLine) {
    this.#openLine = openLine;
  }

  /** A register of a device on a serial line. */
  source(settings: ModbusRtuSettings, register: ModbusRegister): PolledSource {
    return {
      kind: 'polled',
      read: async (signal) => this.#inTurn(settings.path, async () => this.#read(settings, register, signal)),
    };
  }

  async #read(
    { path, baud, parity, timeoutMs }: ModbusRtuSettings,
    register: ModbusRegister,
    signal: AbortSignal,
  ): Promise<Reading> {
    signal.throwIfAborted();
    await using line = await this.#openLine(path, { baud, parity }, signal);
    return parsePdu(await askByRtu(line, { unit: register.unit, timeoutMs }, requestPdu(register), signal), register);
  }

  async #inTurn<T>(path: string, work: () => Promise<T>): Promise<T> {
    const before = this.#turns.get(path) ?? Promise.resolve();
    const turn = Promise.withResolvers<void>();
    this.#turns.set(path, turn.promise);
    await before;
    try {
      return await work();
    } finally {
      turn.resolve();
    }
  }
}

/** Makes one request on a line that nobody else uses. Throws TelemetryError. */
export async function askByRtu(
  line: SerialLine,
  { unit, timeoutMs }: { readonly unit: number; readonly timeoutMs: number },
  request: Uint8Array,
  signal: AbortSignal,
): Promise<Uint8Array> {
  await line.write(rtuFrame(unit, request), signal);
  return rtuPdu(await readRtuFrame(line, timeoutMs, signal), unit);
}

async function readRtuFrame(line: SerialLine, timeoutMs: number, signal: AbortSignal): Promise<Uint8Array> {
  let bytes: Buffer = Buffer.alloc(0);
  while (bytes.byteLength < 5 || bytes.byteLength < rtuFrameLength(bytes)) {
    const chunk = await line.read(timeoutMs, signal);
    if (chunk.byteLength === 0) throw sourceFailed('modbus', `no whole answer within ${timeoutMs} ms`);
    bytes = Buffer.concat([bytes, chunk]);
  }
  return bytes.subarray(0, rtuFrameLength(bytes));
}
