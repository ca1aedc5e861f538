import { createServer } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';

import { packet } from './packets.ts';

/** Something that calls itself a broker. */
export class PretendBroker implements AsyncDisposable {
  readonly url: string;
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    this.url = `mqtt://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  /** `greet` is called with the first data of each connection. */
  static async start(greet: (socket: Socket, first: Buffer) => void): Promise<PretendBroker> {
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', (first) => greet(socket, first));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return new PretendBroker(server);
  }

  /** All clients should have disconnected. */
  async [Symbol.asyncDispose](): Promise<void> {
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** First bytes of packets: MQTT 5.0, section 2.1.2. */
export const first = { connect: 0x10, publish: 0x32, subscribe: 0x82, disconnect: 0xe0 };

export const connack = { 4: packet(0x20, Buffer.from([0, 0])), 5: packet(0x20, Buffer.from([0, 0, 0])) };

/** For one topic; `reason`: refused with it. */
export function suback(protocolVersion: 4 | 5, [high = 0, low = 0]: readonly number[], reason = 1): Buffer {
  return packet(0x90, Buffer.from(protocolVersion === 5 ? [high, low, 0, reason] : [high, low, reason]));
}
