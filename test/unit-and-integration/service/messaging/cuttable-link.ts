import { connect, createServer } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';

/** A TCP connection to a port of this machine that can be interrupted, or hang, with both ends open. */
export class CuttableLink implements AsyncDisposable {
  readonly port: number;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isHanging = false;
  #isBlocked = false;
  #isLosing = false;
  /** To the near end. */
  #passedBytes = 0;
  #cutAtBytes = Infinity;
  #bytesPerSecond = Infinity;

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.port = port;
  }

  get url(): string {
    return `mqtt://127.0.0.1:${this.port}`;
  }

  static async open(targetPort: number): Promise<CuttableLink> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const link = new CuttableLink(server, (server.address() as AddressInfo).port);
    server.on('connection', (near) => link.#join(near, connect(targetPort, '127.0.0.1')));
    return link;
  }

  /** Loses the next data of the near end, and the connection with it. */
  loseNext(): void {
    this.#isLosing = true;
  }

  /** Closes both ends immediately. */
  cut(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  /** Passes no data, without an error; later connections hang, too. */
  hang(): void {
    this.#isHanging = true;
    for (const socket of this.#sockets) socket.pause();
  }

  /** Drops the hanging connection; new connections work. */
  heal(): void {
    this.#isHanging = false;
    this.#isBlocked = false;
    this.cut();
  }

  /** Interrupts present and later connections. */
  block(): void {
    this.#isBlocked = true;
    this.cut();
  }

  /** Cut, once, when so many more bytes have come from the far end. */
  cutAfter(bytes: number): void {
    this.#cutAtBytes = this.#passedBytes + bytes;
  }

  /** Limits the rate from the far end. */
  slowDown(bytesPerSecond: number): void {
    this.#bytesPerSecond = bytesPerSecond;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #join(near: Socket, far: Socket): void {
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(one);
      one.setNoDelay(true);
      one.on('data', (chunk: Buffer) => {
        if (one === near && this.#isLosing) {
          this.#isLosing = false;
          this.cut();
          return;
        }
        one.pause();
        other.write(chunk, () => this.#goOn(one, one === far ? chunk.byteLength : 0));
      });
      one.on('error', () => other.destroy());
      one.on('close', () => {
        this.#sockets.delete(one);
        other.destroy();
      });
      if (this.#isHanging) one.pause();
      if (this.#isBlocked) one.resetAndDestroy();
    }
  }

  #goOn(socket: Socket, passedBytes: number): void {
    this.#passedBytes += passedBytes;
    if (this.#passedBytes >= this.#cutAtBytes) {
      this.#cutAtBytes = Infinity;
      this.cut();
    }
    if (this.#isHanging) return;
    const pauseMs = (passedBytes / this.#bytesPerSecond) * 1000;
    if (pauseMs === 0) socket.resume();
    else setTimeout(() => socket.resume(), pauseMs);
  }
}
