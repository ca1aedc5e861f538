import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';

import { answerPdu } from './modbus-model.ts';
import type { UnitModel } from './modbus-model.ts';

/** How the device treats one request. */
export interface TcpConduct {
  /** Until the answer comes. */
  readonly delayMs?: number;
  /** A gateway waits for its unit for this time, and answers no other request in the meantime. */
  readonly waitMs?: number;
  readonly isLost?: boolean;
  /** Instead of the answer, or `stay` for the answer alone. */
  readonly end?: 'stay' | 'close' | 'reset';
  /** Changes the bytes of the answer. */
  readonly spoil?: (frame: Buffer) => Uint8Array;
}

/**
 * A Modbus TCP device after the Modbus Messaging on TCP/IP Implementation Guide V1.0b, section 3.1.3 (MBAP header). It may
 * refuse further connections with a reset, as many inverters and meters do, and lose the requests of a connection's first
 * `deafMs`, as the dongles of Huawei's inverters do (influxdata/telegraf#11919).
 */
export class ModbusTcpServer implements AsyncDisposable {
  /** The requested addresses. */
  readonly asked: number[] = [];
  connections = 0;
  refused = 0;
  deafMs = 0;
  readonly #unit: UnitModel;
  readonly #conduct: (request: number) => TcpConduct;
  readonly #most: number;
  /** The time until which a gateway waits for a unit. */
  #busyUntilMs = 0;
  readonly #sockets = new Set<Socket>();
  readonly #server = createServer((socket) => this.#accept(socket));

  private constructor(unit: UnitModel, conduct: (request: number) => TcpConduct, most: number) {
    this.#unit = unit;
    this.#conduct = conduct;
    this.#most = most;
  }

  static async start(
    unit: UnitModel,
    conduct: (request: number) => TcpConduct = () => ({}),
    most = Number.POSITIVE_INFINITY,
  ): Promise<ModbusTcpServer> {
    const server = new ModbusTcpServer(unit, conduct, most);
    server.#server.listen(0, '127.0.0.1');
    await once(server.#server, 'listening');
    return server;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get open(): number {
    return this.#sockets.size;
  }

  /** Closes the connections, as a device does with those that it finds unused. */
  hangUp(): void {
    for (const socket of this.#sockets) socket.end();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #accept(socket: Socket): void {
    socket.on('error', () => {}); // the client may hang up
    if (this.#sockets.size >= this.#most) {
      this.refused += 1;
      socket.resetAndDestroy();
      return;
    }
    this.connections += 1;
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    let received: Buffer = Buffer.alloc(0);
    const connectedMs = performance.now();
    socket.on('data', (chunk: Buffer) => {
      if (performance.now() - connectedMs < this.deafMs) return;
      received = Buffer.concat([received, chunk]);
      while (received.byteLength >= 6 && received.byteLength >= 6 + received.readUInt16BE(4)) {
        const frame = received.subarray(0, 6 + received.readUInt16BE(4));
        received = received.subarray(frame.byteLength);
        this.#answer(socket, frame);
      }
    });
  }

  #answer(socket: Socket, request: Buffer): void {
    const { delayMs = 0, waitMs = 0, isLost = false, end, spoil } = this.#conduct(this.asked.length);
    this.asked.push(request.readUInt16BE(8));
    if (end === 'close') socket.end();
    if (end === 'reset') socket.resetAndDestroy();
    if (isLost || end === 'close' || end === 'reset') return;
    const pdu = answerPdu(request.subarray(7), this.#unit);
    const frame = Buffer.concat([request.subarray(0, 7), pdu]);
    frame.writeUInt16BE(pdu.byteLength + 1, 4);
    const say = (): void => void (socket.writable && socket.write(spoil?.(frame) ?? frame));
    this.#busyUntilMs = Math.max(performance.now(), this.#busyUntilMs) + waitMs;
    const laterMs = this.#busyUntilMs - performance.now() + delayMs;
    if (laterMs <= 0) say();
    else setTimeout(say, laterMs);
  }
}
