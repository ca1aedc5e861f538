import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';

export interface Carried {
  readonly sent: number;
  readonly received: number;
  readonly connections: number;
}

/**
 * A TCP connection to a port of this machine that counts its bytes. TLS counts as it is sent; the headers of TCP
 * and IP, 40 to 72 bytes for each segment, do not.
 */
export class CountedLine implements AsyncDisposable {
  readonly port: number;
  readonly #server: Server;
  readonly #sockets: Set<Socket>;
  readonly #carried: { sent: number; received: number; connections: number };

  private constructor(server: Server, sockets: Set<Socket>, carried: CountedLine['carried']) {
    this.port = (server.address() as AddressInfo).port;
    this.#server = server;
    this.#sockets = sockets;
    this.#carried = carried;
  }

  static async to(port: number): Promise<CountedLine> {
    const carried = { sent: 0, received: 0, connections: 0 };
    const sockets = new Set<Socket>();
    const server = createServer((near) => {
      const far = connect(port, '127.0.0.1');
      carried.connections += 1;
      near.on('data', (data) => (carried.sent += data.byteLength));
      far.on('data', (data) => (carried.received += data.byteLength));
      for (const [one, other] of [
        [near, far],
        [far, near],
      ] as const) {
        sockets.add(one);
        one.on('error', () => other.destroy()).on('close', () => void (other.destroy(), sockets.delete(one)));
        one.pipe(other);
      }
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new CountedLine(server, sockets, carried);
  }

  get carried(): { sent: number; received: number; connections: number } {
    return { ...this.#carried };
  }

  /** Returns what the work sends and receives. */
  async during(work: () => Promise<unknown>): Promise<Carried> {
    const before = this.carried;
    await work();
    const { sent, received, connections } = this.carried;
    return {
      sent: sent - before.sent,
      received: received - before.received,
      connections: connections - before.connections,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }
}
