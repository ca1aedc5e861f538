import type { OpenSerialLine, SerialLine } from '../../../src/telemetry/ports.ts';
import { crc16, rtuFrame } from '../../../src/telemetry/sources/modbus/modbus-codec.ts';
import { SteppedClock } from '../clock.ts';
import { answerPdu } from './modbus-model.ts';
import type { UnitModel } from './modbus-model.ts';

/** Events on the line during one request, besides the answer. */
export interface Conduct {
  /** Until the answer comes; default 20 ms. */
  readonly delayMs?: number;
  /** The unit does not hear the request. */
  readonly isLost?: boolean;
  /** The adapter hears what it sends. */
  readonly isEchoed?: boolean;
  /** Bytes directly before the answer. */
  readonly lead?: Uint8Array;
  /** Bytes that come alone, each after a time. */
  readonly stray?: readonly { readonly afterMs: number; readonly bytes: Uint8Array }[];
  /** Changes the bytes of the answer. */
  readonly spoil?: (frame: Buffer) => Uint8Array;
  /** The answer comes in pieces of this size, `pauseMs` apart (2 ms), as through a serial device server. */
  readonly pieceBytes?: number;
  readonly pauseMs?: number;
  /** The whole answer comes again after this time, as from a repeater or a radio that did not get its own receipt. */
  readonly againMs?: number;
}

interface Arrival {
  readonly atMs: number;
  readonly bytes: Uint8Array;
}

const DELAY_MS = 20;

/**
 * A line with units, in virtual time, after Modbus over Serial Line V1.02: a unit is silent to damaged frames,
 * to requests for other units and to broadcasts, and answers one request after the other.
 */
export class RtuBus {
  readonly clock = new SteppedClock();
  /** The requests, in order. */
  readonly asked: { readonly unit: number; readonly code: number; readonly address: number; readonly atMs: number }[] =
    [];
  readonly #units: ReadonlyMap<number, UnitModel>;
  readonly #conduct: (request: number, code: number) => Conduct;
  /** When a unit has given its last answer. */
  readonly #busyUntilMs = new Map<number, number>();
  #arrivals: readonly Arrival[] = [];

  constructor(units: ReadonlyMap<number, UnitModel>, conduct: (request: number, code: number) => Conduct = () => ({})) {
    this.#units = units;
    this.#conduct = conduct;
  }

  readonly open: OpenSerialLine = async (_, __, signal) => {
    signal.throwIfAborted();
    this.#take(); // the system drops bytes that came to a closed port
    const line: SerialLine = {
      write: async (bytes) => this.#hear(Buffer.from(bytes)),
      read: async (timeoutMs, reading) => this.#read(timeoutMs, reading),
      [Symbol.asyncDispose]: async () => {},
    };
    return line;
  };

  #hear(frame: Buffer): void {
    const nowMs = this.clock.monotonicMs();
    const [unit = 0, code = 0] = frame;
    const conduct = this.#conduct(this.asked.length, code);
    this.asked.push({ unit, code, address: frame.readUInt16BE(2), atMs: nowMs });
    if (conduct.isEchoed === true) this.#arrive(nowMs, frame);
    for (const { afterMs, bytes } of conduct.stray ?? []) this.#arrive(nowMs + afterMs, bytes);
    const model = this.#units.get(unit);
    if (model === undefined || unit === 0 || crc16(frame) !== 0) return;
    this.#answer(unit, Buffer.from(rtuFrame(unit, answerPdu(frame.subarray(1, -2), model))), conduct);
  }

  #answer(unit: number, frame: Buffer, conduct: Conduct): void {
    const { delayMs = DELAY_MS, isLost, lead, spoil, pieceBytes: size, pauseMs = 2, againMs } = conduct;
    if (isLost === true) return;
    const atMs = Math.max(this.clock.monotonicMs(), this.#busyUntilMs.get(unit) ?? 0) + delayMs;
    if (againMs !== undefined) this.#arrive(atMs + againMs, Buffer.from(frame));
    const bytes = Buffer.concat([lead ?? Buffer.alloc(0), spoil?.(frame) ?? frame]);
    const pieceBytes = size ?? bytes.byteLength;
    this.#busyUntilMs.set(unit, atMs + (pauseMs * bytes.byteLength) / pieceBytes);
    for (let at = 0; at < bytes.byteLength; at += pieceBytes) {
      this.#arrive(atMs + (pauseMs * at) / pieceBytes, bytes.subarray(at, at + pieceBytes));
    }
  }

  #arrive(atMs: number, bytes: Uint8Array): void {
    this.#arrivals = [...this.#arrivals, { atMs, bytes }].toSorted((one, other) => one.atMs - other.atMs);
  }

  async #read(timeoutMs: number, signal: AbortSignal): Promise<Uint8Array> {
    const endMs = this.clock.monotonicMs() + timeoutMs;
    for (;;) {
      signal.throwIfAborted();
      const bytes = this.#take();
      const nowMs = this.clock.monotonicMs();
      if (bytes.byteLength > 0 || nowMs >= endMs) return bytes;
      await this.clock.sleep(Math.min(endMs, this.#arrivals[0]?.atMs ?? endMs) - nowMs, signal);
    }
  }

  #take(): Uint8Array {
    const nowMs = this.clock.monotonicMs();
    const come = this.#arrivals.filter(({ atMs }) => atMs <= nowMs);
    this.#arrivals = this.#arrivals.filter(({ atMs }) => atMs > nowMs);
    return Buffer.concat(come.map(({ bytes }) => bytes));
  }
}
