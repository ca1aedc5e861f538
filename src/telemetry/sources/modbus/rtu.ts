import { SerialQueue } from '../../../system/serial-queue.ts';
import type { Clock } from '../../../system/time/clock.ts';
import { Deadline } from '../../../system/time/deadline.ts';
import { TelemetryError } from '../../errors.ts';
import type { OpenSerialLine, SerialLine } from '../../ports.ts';
import { sourceFailed } from '../source.ts';
import { hear, isAnswer, isDamagedAnswer, rtuFrame } from './modbus-codec.ts';
import type { Heard } from './modbus-codec.ts';

export interface RtuRequest {
  /** The path of the port. */
  readonly port: string;
  readonly baud: number;
  readonly parity: 'none' | 'even';
  readonly unit: number;
  readonly pdu: Uint8Array;
  /** For the request and its answer, from the moment that they have the line. */
  readonly timeoutMs: number;
}

interface Owed {
  readonly request: RtuRequest;
  readonly untilMs: number;
  readonly answered: AbortController;
}

type Monotonic = Pick<Clock, 'monotonicMs' | 'sleep'>;

/** A unit may still answer a request within this time, or until a second after the timeout if that is longer. */
const LATE_MS = 5_000;
/** The interval at which a listener checks if another unit needs the line. */
const LISTEN_MS = 50;
/** After this silence a damaged answer is not continued: USB adapters pass bytes on with pauses. */
const PAUSE_MS = 50;
const SHORTEST_FRAME_BYTES = 5;
/** More noise is not searched for an answer. */
const MAX_HEARD_BYTES = 512;

/**
 * A serial line with Modbus units. It carries one request at a time. An answer has no number that ties it to its request,
 * so a unit that owes one gets no other request until the answer came or is too late to come.
 */
export class RtuLine {
  /** True once a request came back, as from an adapter that hears itself. */
  isEchoing = false;
  readonly #openLine: OpenSerialLine;
  readonly #clock: Monotonic;
  readonly #turns = new SerialQueue(1);
  readonly #units = new Map<number, SerialQueue>();
  /** The units that owe an answer, each to one request. */
  readonly #owing = new Map<number, Owed>();

  constructor(openLine: OpenSerialLine, clock: Monotonic) {
    this.#openLine = openLine;
    this.#clock = clock;
  }

  /** Returns the PDU of the answer. Throws AgentError. */
  async ask(request: RtuRequest, signal: AbortSignal): Promise<Uint8Array> {
    const { unit } = request;
    const turns = this.#units.get(unit) ?? new SerialQueue(1);
    this.#units.set(unit, turns);
    const answered = new AbortController();
    const inTurn = async (): Promise<Heard> => {
      try {
        return await this.#turns.run(async () => this.#exchange(request, answered, signal), signal);
      } finally {
        await this.#settle(unit, signal);
      }
    };
    const heard = await turns.run(inTurn, signal);
    if (heard.answer !== undefined) return heard.answer;
    throw unanswered(request, heard, answered.signal.aborted);
  }

  async #exchange(request: RtuRequest, answered: AbortController, signal: AbortSignal): Promise<Heard> {
    const { port, unit, timeoutMs } = request;
    using opening = new Deadline(timeoutMs, () => late(request), signal);
    await using line = await this.#openLine(port, request, opening.signal);
    const untilMs = this.#clock.monotonicMs() + Math.max(LATE_MS, timeoutMs + 1_000);
    this.#owing.set(unit, { request, untilMs, answered });
    const heard = await askByRtu(line, request, this.#clock, signal);
    this.#note(heard, request);
    await this.#listen(line, request, signal);
    return heard;
  }

  /** Listens for the answer that a unit owes, until another unit needs the line. */
  async #listen(line: SerialLine, request: RtuRequest, signal: AbortSignal): Promise<void> {
    let bytes: Uint8Array = new Uint8Array();
    while (this.#turns.waiting === 0) {
      const leftMs = (this.#owing.get(request.unit)?.untilMs ?? 0) - this.#clock.monotonicMs();
      if (leftMs <= 0) return;
      bytes = joined(bytes, await line.read(Math.min(leftMs, LISTEN_MS), signal));
      this.#note(hear(bytes, request.unit, request.pdu), request);
    }
  }

  /** Waits until a unit owes nothing. */
  async #settle(unit: number, signal: AbortSignal): Promise<void> {
    const owing = this.#owing.get(unit);
    if (owing === undefined) return;
    try {
      const leftMs = Math.max(0, owing.untilMs - this.#clock.monotonicMs());
      await this.#clock.sleep(leftMs, AbortSignal.any([signal, owing.answered.signal]));
    } catch (error) {
      if (!owing.answered.signal.aborted) throw error;
    } finally {
      this.#owing.delete(unit);
    }
  }

  /** Notes which units answered, and whether the adapter hears itself. */
  #note({ answer, others, isEchoed, rest }: Heard, { unit, pdu }: RtuRequest): void {
    if (answer !== undefined || isEchoed) this.isEchoing = isEchoed;
    if (answer !== undefined || isDamagedAnswer(rest, unit, pdu)) this.#answered(unit);
    for (const frame of others) {
      const [from = 0] = frame;
      const owed = this.#owing.get(from);
      if (owed !== undefined && isAnswer(frame, from, owed.request.pdu)) this.#answered(from);
    }
  }

  #answered(unit: number): void {
    this.#owing.get(unit)?.answered.abort();
    this.#owing.delete(unit);
  }
}

/** Makes one request on a line that has no other user, after the silence between frames. Throws SerialError. */
export async function askByRtu(
  line: SerialLine,
  { baud, unit, pdu, timeoutMs }: RtuRequest,
  clock: Pick<Clock, 'monotonicMs'>,
  signal: AbortSignal,
): Promise<Heard> {
  const endMs = clock.monotonicMs() + timeoutMs;
  const leftMs = (): number => Math.max(0, endMs - clock.monotonicMs());
  let before: Uint8Array = new Uint8Array();
  for (let isSilent = false; !isSilent && leftMs() > 0;) {
    const bytes = await line.read(idleTimeoutMs(baud), signal);
    before = joined(before, bytes);
    isSilent = bytes.byteLength === 0;
  }
  const { others } = hear(before, unit, pdu);
  await line.write(rtuFrame(unit, pdu), signal);
  let bytes: Uint8Array = new Uint8Array();
  for (;;) {
    const heard = hear(bytes, unit, pdu);
    const isDamaged = heard.rest.byteLength >= SHORTEST_FRAME_BYTES;
    const waitMs = isDamaged ? Math.min(leftMs(), Math.max(PAUSE_MS, idleTimeoutMs(baud))) : leftMs();
    const isOver = heard.answer !== undefined || bytes.byteLength === MAX_HEARD_BYTES;
    const more = isOver ? new Uint8Array() : await line.read(waitMs, signal);
    if (more.byteLength === 0) return { ...heard, others: [...others, ...heard.others] };
    bytes = joined(bytes, more);
  }
}

/** Modbus over Serial Line V1.02, 2.5.1.1: 3.5 characters, and 1.75 ms above 19,200 bit/s. */
function idleTimeoutMs(baud: number): number {
  return Math.ceil(baud > 19_200 ? 1.75 : (3.5 * 11_000) / baud);
}

/** The last bytes that were heard. */
function joined(bytes: Uint8Array, more: Uint8Array): Uint8Array {
  return Buffer.concat([bytes, more]).subarray(-MAX_HEARD_BYTES);
}

function late({ unit, timeoutMs }: RtuRequest): TelemetryError {
  return new TelemetryError('source-timeout', `modbus unit ${unit}: no answer within ${timeoutMs} ms`);
}

/** The reason why a request has no answer. */
function unanswered(request: RtuRequest, { others, isEchoed, rest }: Heard, isLate: boolean): TelemetryError {
  const name = `modbus unit ${request.unit}`;
  if (rest.byteLength >= SHORTEST_FRAME_BYTES) return sourceFailed(name, `a damaged answer: ${hex(rest)}`);
  const [other = rest] = others;
  const instead = other.byteLength === 0 ? '' : `, but ${hex(other)}`;
  const echo = isEchoed ? '; the adapter echoes the request' : '';
  const { code, message } = late(request);
  return new TelemetryError(code, `${message}${instead}${echo}${isLate ? '; it came later' : ''}`);
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.subarray(0, 16)).toString('hex');
}
