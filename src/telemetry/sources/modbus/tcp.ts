import type { Socket } from 'node:net';

import { abortable } from '../../../system/abortable.ts';
import { Dialing } from '../../../system/dialing.ts';
import type { Destination } from '../../../system/dialing.ts';
import { AgentError, describeError } from '../../../system/errors.ts';
import { SerialQueue } from '../../../system/serial-queue.ts';
import type { Clock } from '../../../system/time/clock.ts';
import { Deadline } from '../../../system/time/deadline.ts';
import { TelemetryError } from '../../errors.ts';
import { sourceFailed } from '../source.ts';
import { requireAnswerOf, tcpFrame, tcpFrameLength, tcpPdu } from './modbus-codec.ts';
import { SilentUnits } from './silent-units.ts';

export interface TcpRequest {
  readonly unit: number;
  readonly pdu: Uint8Array;
  /** For the connection, the request and its answer, from the moment that they have their turn. */
  readonly timeoutMs: number;
}

/** An unused connection is closed after this, for the other clients of a device that serves only one. */
const IDLE_MS = 5_000;
/** A device that serves one connection may need a moment after the last one. */
const AGAIN_MS = 100;
const LONGEST_AGAIN_MS = 1_600;
/**
 * The pauses before the first request of a connection. Some devices lose an earlier one, such as the dongles of Huawei's
 * inverters (influxdata/telegraf#11919, openhab/openhab-core#2926). A connection without any answer leads to the next pause.
 */
const WARM_UPS_MS = [0, 0, 1_000, 2_000];
/** Late answers are few; a device that sends more of them is disconnected. */
const MAX_OTHERS = 100;
const MAX_UNREAD_BYTES = 128 * 1024;

/**
 * A device, or a gateway to several, that is reached by TCP: one connection for all its registers, since many devices
 * serve only one, and one request at a time.
 */
export class TcpDevice implements Disposable {
  readonly #destination: Destination;
  readonly #clock: Pick<Clock, 'monotonicMs' | 'sleep'>;
  readonly #units: SilentUnits;
  readonly #turns = new SerialQueue(1);
  /** While a connection is being opened. */
  #dialing: Dialing | undefined;
  #socket: Socket | undefined;
  /** True once the device has answered on this connection. */
  #isAnswered = false;
  /** True if the last request on this connection has no answer yet. */
  #isSilent = false;
  /** Called when something arrives, and when the connection ends. */
  #onArrival = (): void => {};
  /** The number of connections without any answer. */
  #unanswered = 0;
  #unread: Buffer = Buffer.alloc(0);
  #transaction = 0;
  /** The number of an answer to another request. */
  #other: number | undefined;

  constructor(destination: Destination, clock: Pick<Clock, 'monotonicMs' | 'sleep'>) {
    this.#destination = destination;
    this.#clock = clock;
    this.#units = new SilentUnits(clock);
  }

  /** Returns the PDU of the answer. Throws TelemetryError. */
  async ask(request: TcpRequest, signal: AbortSignal): Promise<Uint8Array> {
    const { unit, timeoutMs } = request;
    const late = (): Error => {
      const numbers =
        this.#other === undefined ? '' : ` to transaction ${this.#transaction}, but one to transaction ${this.#other}`;
      const why = `no answer within ${timeoutMs} ms${this.#dialing?.answers ?? ''}${numbers}`;
      return new TelemetryError('source-timeout', `${this.#name} unit ${unit}: ${why}`);
    };
    const inTurn = async (): Promise<Uint8Array> => {
      using deadline = new Deadline(timeoutMs, late, signal);
      const patiently = async () => requireAnswerOf(unit, await this.#patiently(request, deadline.signal));
      return await this.#units.ask(request, patiently, signal);
    };
    return this.#turns.run(inTurn, signal);
  }

  [Symbol.dispose](): void {
    this.#socket?.destroy();
    this.#socket = undefined;
    this.#unread = Buffer.alloc(0);
  }

  get #name(): string {
    return `modbus ${this.#destination.host}:${this.#destination.port}`;
  }

  async #connect(timeoutMs: number, signal: AbortSignal): Promise<Socket> {
    if (this.#socket?.writable === true) return this.#socket;
    this[Symbol.dispose]();
    this.#dialing = new Dialing(this.#destination);
    const socket = await this.#dialing.open(signal);
    this.#dialing = undefined;
    socket.on('error', () => {}); // the reader gets it
    socket.on('timeout', () => socket.destroy());
    socket.on('close', () => this.#onArrival());
    socket.on('data', (chunk: Buffer) => {
      if (this.#socket !== socket) return;
      this.#unread = Buffer.concat([this.#unread, chunk]);
      if (this.#unread.byteLength > MAX_UNREAD_BYTES) socket.destroy();
      this.#onArrival();
    });
    this.#socket = socket;
    this.#isSilent = false;
    this.#isAnswered = false;
    const warmUpMs = WARM_UPS_MS[this.#unanswered % WARM_UPS_MS.length] ?? 0;
    if (warmUpMs > 0) await this.#clock.sleep(Math.min(warmUpMs, timeoutMs / 2), signal);
    return socket;
  }

  /**
   * Makes the request, and again on another connection if the device closes one: it may have found it unused, or may need
   * a moment after the last one.
   */
  async #patiently(request: TcpRequest, signal: AbortSignal): Promise<Uint8Array> {
    const endMs = this.#clock.monotonicMs() + request.timeoutMs;
    for (let pauseMs = AGAIN_MS; ; pauseMs *= 2) {
      try {
        return await this.#exchange(request, signal);
      } catch (error) {
        this.#endAfter(signal);
        signal.throwIfAborted();
        if (error instanceof AgentError) throw error;
        if (pauseMs > LONGEST_AGAIN_MS || this.#clock.monotonicMs() + pauseMs >= endMs)
          throw sourceFailed(this.#name, describeError(error), error);
      }
      await this.#clock.sleep(pauseMs, signal);
    }
  }

  /** Closes the connection after a failure, except after a timeout of one unit while the device answers for others. */
  #endAfter(signal: AbortSignal): void {
    const isLate = signal.aborted && this.#socket !== undefined;
    if (isLate && !this.#isAnswered) this.#unanswered += 1;
    const isKept = isLate && this.#isAnswered && !this.#isSilent;
    this.#isSilent = true;
    if (!isKept) this[Symbol.dispose]();
  }

  async #exchange({ unit, pdu, timeoutMs }: TcpRequest, signal: AbortSignal): Promise<Uint8Array> {
    const socket = await this.#connect(timeoutMs, signal);
    socket.setTimeout(0);
    try {
      this.#transaction = (this.#transaction + 1) & 0xffff;
      this.#other = undefined;
      socket.write(tcpFrame(this.#transaction, unit, pdu));
      const frame = await this.#frame(socket, signal);
      this.#isAnswered = true;
      this.#isSilent = false;
      return tcpPdu(frame, unit);
    } finally {
      socket.setTimeout(IDLE_MS);
    }
  }

  /** Returns the frame with the number of the request. Those with another one are answers that came too late. */
  async #frame(socket: Socket, signal: AbortSignal): Promise<Buffer> {
    let others = 0;
    const next = (): Buffer | undefined => {
      while (this.#unread.byteLength >= tcpFrameLength(this.#unread)) {
        const frame = this.#unread.subarray(0, tcpFrameLength(this.#unread));
        this.#unread = this.#unread.subarray(frame.byteLength);
        if (frame.readUInt16BE(0) === this.#transaction) return frame;
        this.#other = frame.readUInt16BE(0);
        others += 1;
        if (others > MAX_OTHERS) throw sourceFailed(this.#name, `${others} answers to other requests`);
      }
      return undefined;
    };
    for (;;) {
      const frame = next();
      if (frame !== undefined) return frame;
      if (socket.closed) throw socket.errored ?? new Error('the device closed the connection without an answer');
      const arrival = Promise.withResolvers<void>();
      this.#onArrival = arrival.resolve;
      await abortable(arrival.promise, signal);
    }
  }
}
