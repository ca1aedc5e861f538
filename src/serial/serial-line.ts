import { setImmediate as nextTurn } from 'node:timers/promises';

import { SerialPort } from 'serialport';

import { describeError, mapError } from '../system/errors.ts';
import { SerialError } from './errors.ts';
import type { SerialCode } from './errors.ts';
import type { Line, LineSettings, ModemLines } from './line.ts';
import { holdersOf } from './port-holders.ts';

/** The number of bytes kept without a reader, more than any bootloader sends. The oldest ones are dropped. */
const maxWaitingBytes = 1024 * 1024;
/** Invariant 6: a driver that is not responding for this time is stuck. */
const driverTimeoutMs = 10_000;
const closeTimeoutMs = 2_000;
const chunkBytes = 4096;

/** Opens a serial port exclusively. Closing it does not hang up. */
export async function openSerialLine(path: string, settings: LineSettings, signal: AbortSignal): Promise<Line> {
  signal.throwIfAborted();
  const port = new SerialPort({
    path,
    baudRate: settings.baud,
    parity: settings.parity,
    dataBits: 8,
    stopBits: 1,
    hupcl: false,
    lock: true,
    autoOpen: false,
  });
  const line = new SerialLine(port, settings);
  const opening = settled((done) => port.open(done));
  await mapError(opening, async (error) => openError(path, error));
  await line.askForLowLatency();
  return line;
}

class SerialLine implements Line {
  readonly name: string;
  readonly bitsPerCharacter: number;
  readonly #port: SerialPort;
  baud: number;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #wake: (() => void) | undefined;
  readonly #pending = new Set<(error: Error) => void>();
  #failure: SerialError | undefined;
  #closing = false;

  constructor(port: SerialPort, { baud, parity }: LineSettings) {
    this.#port = port;
    this.name = port.path;
    this.baud = baud;
    this.bitsPerCharacter = parity === 'none' ? 10 : 11;
    port.on('data', (chunk: Buffer) => this.#keep(chunk));
    port.on('error', (error) => this.#fail(error));
    port.on('close', (error?: Error) => this.#fail(error));
  }

  async write(bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    for (let from = 0; from < bytes.byteLength; from += chunkBytes) {
      const chunk = Buffer.from(bytes.subarray(from, from + chunkBytes));
      await this.#must((done) => this.#port.write(chunk, done), signal);
    }
  }

  async read(timeoutMs: number, signal: AbortSignal): Promise<Uint8Array> {
    if (this.#waitingBytes === 0) {
      signal.throwIfAborted();
      this.#check();
      // without a timer: one of 0 ms takes a whole millisecond, and each turn of a conversation begins like this
      await (timeoutMs > 0 ? this.#arrival(timeoutMs, signal) : nextTurn());
      signal.throwIfAborted();
    }
    if (this.#waitingBytes === 0) this.#check();
    const bytes = Buffer.concat(this.#waiting);
    this.#waiting = [];
    this.#waitingBytes = 0;
    return bytes;
  }

  async setModem({ dtr, rts }: ModemLines, signal: AbortSignal): Promise<boolean> {
    try {
      await this.#driver((done) => this.#port.set({ dtr, rts }, done), signal);
      return true;
    } catch (error) {
      if (!signal.aborted && this.#failure === undefined && hasNoModemLines(error)) return false;
      throw this.#translate(error, signal);
    }
  }

  async setBaud(baud: number, signal: AbortSignal): Promise<void> {
    await this.#must((done) => this.#port.drain(done), signal);
    await this.#must((done) => this.#port.update({ baudRate: baud }, done), signal);
    this.baud = baud;
  }

  /** Sets FTDI's latency timer to 1 ms instead of 16, if the driver has one. */
  async askForLowLatency(): Promise<void> {
    const options = { dtr: true, rts: true, lowLatency: true };
    try {
      await settled((done) => this.#port.set(options, done));
    } catch (error) {
      if (this.#failure !== undefined) throw error;
      // most drivers have no latency timer
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closing) return;
    this.#closing = true;
    if (!this.#port.isOpen) return;
    const closed = Promise.withResolvers<void>();
    const timer = setTimeout(closed.resolve, closeTimeoutMs);
    this.#port.close(() => closed.resolve());
    await closed.promise;
    clearTimeout(timer);
  }

  #keep(chunk: Buffer): void {
    this.#waiting.push(chunk);
    this.#waitingBytes += chunk.byteLength;
    while (this.#waitingBytes > maxWaitingBytes) this.#waitingBytes -= this.#waiting.shift()?.byteLength ?? 0;
    this.#wake?.();
  }

  #fail(cause: unknown): SerialError {
    const why = cause === undefined ? '' : `: ${describeError(cause)}`;
    this.#failure ??= new SerialError('port-disconnected', `${this.name} has gone${why}`, { cause });
    this.#wake?.();
    for (const reject of this.#pending) reject(this.#failure);
    return this.#failure;
  }

  #check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  async #arrival(timeoutMs: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, timeoutMs);
    const stop = (): void => resolve();
    signal.addEventListener('abort', stop, { once: true });
    this.#wake = resolve;
    await promise;
    clearTimeout(timer);
    signal.removeEventListener('abort', stop);
    this.#wake = undefined;
  }

  async #must(action: (done: Done) => void, signal: AbortSignal): Promise<void> {
    await mapError(this.#driver(action, signal), (error) => this.#translate(error, signal));
  }

  #translate(error: unknown, signal: AbortSignal): unknown {
    return signal.aborted || error instanceof SerialError ? error : this.#fail(error);
  }

  /** Calls the driver, and waits until it has answered, the port has gone, or the deadline has passed. */
  async #driver(action: (done: Done) => void, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.#check();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const stop = (): void => reject(toError(signal.reason));
    const late = (): void => reject(new SerialError('port-failed', `the driver of ${this.name} is not responding`));
    const timer = setTimeout(late, driverTimeoutMs);
    signal.addEventListener('abort', stop, { once: true });
    this.#pending.add(reject);
    try {
      action((error) => (error ? reject(error) : resolve()));
      await promise;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', stop);
      this.#pending.delete(reject);
    }
  }
}

type Done = (error?: Error | null) => void;

async function settled(action: (done: Done) => void): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    action((error) => (error ? reject(error) : resolve()));
  });
}

function toError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason));
}

/** True if the error is ENOTTY, as for a pty or a driver without modem lines. The binding only passes on the text. */
function hasNoModemLines(error: unknown): boolean {
  return /inappropriate ioctl|invalid argument|not supported/i.test(describeError(error));
}

async function openError(path: string, cause: unknown): Promise<SerialError> {
  const text = describeError(cause);
  const found = openFailures.find(([pattern]) => pattern.test(text));
  const code = found?.[1] ?? 'port-failed';
  if (code !== 'port-busy') return new SerialError(code, `cannot open ${path}: ${found?.[2] ?? text}`, { cause });
  const holders = await holdersOf(path);
  const who = holders.length === 0 ? 'another program' : holders.join(', ');
  return new SerialError('port-busy', `cannot open ${path}: ${who} has it open`, { cause });
}

const openFailures: readonly (readonly [RegExp, SerialCode, string])[] = [
  [/no such file|no such device/i, 'port-missing', 'no such port'],
  [/cannot lock|temporarily unavailable|busy/i, 'port-busy', 'it is in use'],
  [/permission denied|access denied|operation not permitted/i, 'port-denied', 'permission denied'],
];
