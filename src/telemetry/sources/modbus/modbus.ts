import { realpath } from 'node:fs/promises';

import type { Destination } from '../../../system/dialing.ts';
import type { Clock } from '../../../system/time/clock.ts';
import type { OpenSerialLine } from '../../ports.ts';
import type { PolledSource } from '../source.ts';
import { parsePdu, requestPdu } from './modbus-codec.ts';
import type { ModbusRegister } from './modbus-codec.ts';
import { RtuLine } from './rtu.ts';
import type { RtuRequest } from './rtu.ts';
import { TcpDevice } from './tcp.ts';
import type { TcpRequest } from './tcp.ts';

export type TcpAddress = Destination & Pick<TcpRequest, 'timeoutMs'>;
export type RtuAddress = Pick<RtuRequest, 'port' | 'baud' | 'parity' | 'timeoutMs'>;

/** The lines and devices that several sources share. */
export class ModbusDevices implements Disposable {
  readonly #openLine: OpenSerialLine;
  readonly #clock: Clock;
  readonly #lines = new Map<string, RtuLine>();
  readonly #devices = new Map<string, TcpDevice>();

  constructor(openLine: OpenSerialLine, clock: Clock) {
    this.#openLine = openLine;
    this.#clock = clock;
  }

  /** A register of a unit on a serial line. */
  rtuSource(address: RtuAddress, register: ModbusRegister): PolledSource {
    const request = { ...address, unit: register.unit, pdu: requestPdu(register) };
    let line: RtuLine | undefined;
    return {
      kind: 'polled',
      read: async (signal) => {
        line = await this.#line(address.port);
        return parsePdu(await line.ask(request, signal), register);
      },
      get notice() {
        return line?.isEchoing === true ? `the adapter at ${address.port} echoes what is sent` : undefined;
      },
    };
  }

  /** A register of a device that is reached by TCP. Two names of one host are two devices. */
  tcpSource({ host, port, timeoutMs }: TcpAddress, register: ModbusRegister): PolledSource {
    const key = `${host.toLowerCase()} ${port}`;
    const device = this.#devices.get(key) ?? new TcpDevice({ host, port }, this.#clock);
    this.#devices.set(key, device);
    const request = { unit: register.unit, pdu: requestPdu(register), timeoutMs };
    return { kind: 'polled', read: async (signal) => parsePdu(await device.ask(request, signal), register) };
  }

  [Symbol.dispose](): void {
    for (const device of this.#devices.values()) device[Symbol.dispose]();
  }

  /** The line of a port, which may have several names. */
  async #line(port: string): Promise<RtuLine> {
    const device = await realpath(port).catch(() => port); // opening it reports the problem
    const line = this.#lines.get(device) ?? new RtuLine(this.#openLine, this.#clock);
    this.#lines.set(device, line);
    return line;
  }
}
