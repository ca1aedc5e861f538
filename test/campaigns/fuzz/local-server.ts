import { createServer } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';

/** How a hostile reply goes over the line. */
interface Delivery {
  readonly pieces: number;
  readonly ending: 'stay' | 'close' | 'reset';
}

/** A server on a port of this machine. It ends with all its connections. */
export class LocalServer {
  readonly #sockets = new Set<Socket>();
  readonly #server: Server;

  constructor(serve: (socket: Socket) => void) {
    this.#server = createServer((socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
      socket.on('error', () => {}); // the client may hang up
      serve(socket);
    });
  }

  /** Listens, and returns its host and port. */
  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }
}

export function deliver(socket: Socket, bytes: Buffer, { pieces, ending }: Delivery): void {
  const size = Math.max(1, Math.ceil(bytes.byteLength / pieces));
  for (let at = 0; at < bytes.byteLength; at += size) socket.write(bytes.subarray(at, at + size));
  if (ending === 'close') socket.end();
  if (ending === 'reset') socket.resetAndDestroy();
}
