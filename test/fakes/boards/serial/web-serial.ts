import { SerialPort } from 'serialport';

interface OpenOptions {
  readonly baudRate: number;
}

interface Signals {
  readonly dataTerminalReady?: boolean;
  readonly requestToSend?: boolean;
}

/** A serial port of Node in the shape of the Web Serial API, as far as esptool-js uses it. */
export class NodeWebSerial {
  readonly #path: string;
  #port: SerialPort | undefined;
  #dtr = false;
  #rts = false;
  readable: ReadableStream<Uint8Array> | null = null;
  writable: WritableStream<Uint8Array> | null = null;

  constructor(path: string) {
    this.#path = path;
  }

  getInfo(): object {
    return {};
  }

  async open({ baudRate }: OpenOptions): Promise<void> {
    const port = new SerialPort({ path: this.#path, baudRate, hupcl: false, autoOpen: false });
    this.#port = port;
    await settled((done) => port.open(done));
    this.readable = new ReadableStream<Uint8Array>({
      start: (controller) => {
        port.on('data', (chunk: Buffer) => controller.enqueue(Uint8Array.from(chunk)));
      },
      cancel: () => {
        port.removeAllListeners('data');
      },
    });
    this.writable = new WritableStream<Uint8Array>({
      write: async (chunk) => {
        await settled((done) => port.write(Buffer.from(chunk), done));
        await settled((done) => port.drain(done));
      },
    });
  }

  /** Both lines in one go. */
  async setSignals({ dataTerminalReady, requestToSend }: Signals): Promise<void> {
    this.#dtr = dataTerminalReady ?? this.#dtr;
    this.#rts = requestToSend ?? this.#rts;
    await settled((done) => this.#opened.set({ dtr: this.#dtr, rts: this.#rts }, done));
  }

  /** If present, esptool-js changes the rate without closing the port. */
  async setBaudRate(baudRate: number): Promise<void> {
    await settled((done) => this.#opened.update({ baudRate }, done));
  }

  async close(): Promise<void> {
    await settled((done) => this.#opened.close(done));
    this.readable = null;
    this.writable = null;
  }

  get #opened(): SerialPort {
    if (this.#port === undefined) throw new Error('the port is closed');
    return this.#port;
  }
}

async function settled(action: (done: (error?: Error | null) => void) => void): Promise<void> {
  await new Promise<void>((resolve, reject) => action((error) => (error ? reject(error) : resolve())));
}
