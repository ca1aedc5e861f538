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

/** A unit on the line, and the last request to it. */
interface Unit {
  readonly turns: SerialQueue;
  request: RtuRequest;
  /** The number of requests that it answered. */
  answers: number;
  /** The functions of the requests without an answer, each once, in order. */
  unanswered: readonly number[];
  /** True while answers may come. */
  owes: boolean;
  /** Then they are too late to come. */
  untilMs: number;
  hasAnswered: boolean;
  /** Aborted when nothing more is waited for. */
  settled: AbortController;
  /** True if a second copy of the answer is waited for. */
  isWatched: boolean;
  /** The number of requests for which the unit is still suspected of answering twice. */
  suspected: number;
}

/** The bytes of one exchange, taken apart. */
interface Exchanged extends Heard {
  /** Answers that came before the request. */
  readonly before: readonly Uint8Array[];
}

type Monotonic = Pick<Clock, 'monotonicMs' | 'sleep'>;

/** A unit may still answer a request within this time, or until a second after the timeout if that is longer. */
const LATE_MS = 5_000;
/** A unit that may answer twice is waited for until it was silent for this time. */
const COPY_MS = 1_000;
/** The number of requests for which a unit that answered twice is watched, and the interval at which any other unit is. */
const SUSPECTED_FOR = 10;
const WATCHED_EVERY = 1_000;
/** A unit whose answers can no longer be distinguished gets no request for this time, in which late ones pass. */
const QUIET_MS = 30_000;
/** Functions that change nothing in a unit, the most common first. */
const readFunctions = [3, 4, 1, 2];
/** The interval at which a listener checks if another unit needs the line. */
const LISTEN_MS = 50;
/** After this silence a damaged answer is not continued: USB adapters pass bytes on with pauses. */
const PAUSE_MS = 50;
const SHORTEST_FRAME_BYTES = 5;
/** More noise is not searched for an answer. */
const MAX_HEARD_BYTES = 512;

/**
 * A serial line with Modbus units. It carries one request at a time. An answer has no number that ties it to its request,
 * so a unit that owes one gets no other request for a while, and then one whose answer cannot be confused with it. Some units answer twice,
 * for example behind a repeater: the answers of a watched unit are followed by a second of listening, which no other unit
 * interrupts. The first answer of each unit is watched.
 */
export class RtuLine {
  /** True once a request came back, as from an adapter that hears itself. */
  isEchoing = false;
  readonly #openLine: OpenSerialLine;
  readonly #clock: Monotonic;
  readonly #turns = new SerialQueue(1);
  readonly #units = new Map<number, Unit>();

  constructor(openLine: OpenSerialLine, clock: Monotonic) {
    this.#openLine = openLine;
    this.#clock = clock;
  }

  /** Returns the PDU of the answer. Throws AgentError. */
  async ask(request: RtuRequest, signal: AbortSignal): Promise<Uint8Array> {
    const unit = this.#units.get(request.unit) ?? newUnit(request);
    this.#units.set(request.unit, unit);
    return unit.turns.run(async () => {
      await this.#settle(unit, signal);
      if (unit.unanswered.includes(functionOf(request))) await this.#catchUp(unit, request, signal);
      return this.#answerOf(unit, request, signal);
    }, signal);
  }

  /**
   * Makes sure that no answer to an earlier request can be taken for the next one. A unit answers in order, so that after
   * its answer to a request with another function (also an exception) none is outstanding.
   */
  async #catchUp(unit: Unit, request: RtuRequest, signal: AbortSignal): Promise<void> {
    const code = readFunctions.find((other) => !unit.unanswered.includes(other));
    if (code !== undefined) {
      await this.#answerOf(unit, { ...request, pdu: Uint8Array.of(code, 0, 0, 0, 1) }, signal);
      return;
    }
    await this.#clock.sleep(Math.max(0, unit.untilMs + QUIET_MS - this.#clock.monotonicMs()), signal);
    unit.unanswered = [];
  }

  async #answerOf(unit: Unit, request: RtuRequest, signal: AbortSignal): Promise<Uint8Array> {
    const heard = await this.#heardFrom(unit, request, signal);
    if (heard.answer !== undefined) return heard.answer;
    throw unanswered(request, heard, unit.hasAnswered);
  }

  /** Makes the exchange when the line is free. The unit owes nothing afterwards. */
  async #heardFrom(unit: Unit, request: RtuRequest, signal: AbortSignal): Promise<Exchanged> {
    try {
      return await this.#turns.run(async () => this.#exchange(unit, request, signal), signal);
    } finally {
      await this.#settle(unit, signal);
    }
  }

  async #exchange(unit: Unit, request: RtuRequest, signal: AbortSignal): Promise<Exchanged> {
    const { port, timeoutMs } = request;
    using opening = new Deadline(timeoutMs, () => late(request), signal);
    await using line = await this.#openLine(port, request, opening.signal);
    unit.request = request;
    unit.isWatched = unit.suspected > 0 || unit.unanswered.length > 0 || unit.answers % WATCHED_EVERY === 0;
    unit.unanswered = [...unit.unanswered, functionOf(request)];
    unit.hasAnswered = false;
    this.#owe(unit, Math.max(LATE_MS, timeoutMs + 1_000));
    const heard = await askByRtu(line, request, this.#clock, signal);
    for (const frame of heard.before) this.#came(frame, unit);
    await this.#listen(line, unit, this.#note(heard, unit), signal);
    return heard;
  }

  #owe(unit: Unit, forMs: number): void {
    if (!unit.owes) unit.settled = new AbortController();
    unit.owes = true;
    unit.untilMs = this.#clock.monotonicMs() + forMs;
  }

  /** Listens for the answers that a unit owes, until another unit needs the line. It has to wait for a second copy. */
  async #listen(line: SerialLine, unit: Unit, rest: Uint8Array, signal: AbortSignal): Promise<void> {
    const { unit: number, pdu } = unit.request;
    let bytes = rest;
    while (unit.owes && (unit.hasAnswered || this.#turns.waiting === 0)) {
      const leftMs = unit.untilMs - this.#clock.monotonicMs();
      if (leftMs <= 0) return;
      bytes = joined(bytes, await line.read(Math.min(leftMs, LISTEN_MS), signal));
      bytes = this.#note(hear(bytes, number, pdu), unit);
    }
  }

  /** Waits until a unit owes nothing. */
  async #settle(unit: Unit, signal: AbortSignal): Promise<void> {
    try {
      while (unit.owes && unit.untilMs > this.#clock.monotonicMs()) {
        const leftMs = unit.untilMs - this.#clock.monotonicMs();
        const { signal: settled } = unit.settled; // a copy of the answer gives the unit another one
        await this.#clock.sleep(leftMs, AbortSignal.any([signal, settled])).catch((error: unknown) => {
          if (!settled.aborted) throw error;
        });
      }
      if (unit.owes && unit.hasAnswered) unit.suspected = Math.max(0, unit.suspected - 1);
    } finally {
      unit.owes = false;
    }
  }

  /** Notes which units answered, and whether the adapter hears itself. Returns the bytes that may still become a frame. */
  #note({ answer, others, isEchoed, rest }: Heard, unit: Unit): Uint8Array {
    const { unit: number, pdu } = unit.request;
    if (answer !== undefined || isEchoed) this.isEchoing = isEchoed;
    const isDamaged = answer === undefined && isDamagedAnswer(rest, number, pdu);
    if (answer !== undefined || isDamaged) this.#answered(unit);
    for (const frame of others) this.#came(frame);
    return isDamaged ? new Uint8Array() : rest;
  }

  /** Notes a frame besides the answer to a request. It came before the request to `unasked`. */
  #came(frame: Uint8Array, unasked?: Unit): void {
    const [number = 0] = frame;
    const unit = this.#units.get(number);
    if (unit === undefined || !isAnswer(frame, number, unit.request.pdu)) return;
    if (unit.owes && unit !== unasked) {
      this.#answered(unit);
      return;
    }
    unit.suspected = SUSPECTED_FOR;
    unit.isWatched = true;
    if (unit !== unasked) this.#owe(unit, COPY_MS);
  }

  #answered(unit: Unit): void {
    if (unit.hasAnswered) unit.suspected = SUSPECTED_FOR;
    else unit.answers += 1;
    unit.hasAnswered = true;
    unit.unanswered = [];
    unit.untilMs = this.#clock.monotonicMs() + COPY_MS;
    if (unit.isWatched) return;
    unit.owes = false;
    unit.settled.abort();
  }
}

function newUnit(request: RtuRequest): Unit {
  const debt = { owes: false, untilMs: 0, hasAnswered: false, settled: new AbortController() };
  return { turns: new SerialQueue(1), request, answers: 0, unanswered: [], isWatched: false, suspected: 0, ...debt };
}

function functionOf({ pdu: [code = 0] }: RtuRequest): number {
  return code;
}

/** Makes one request on a line that has no other user, after the silence between frames. Throws SerialError. */
export async function askByRtu(
  line: SerialLine,
  { baud, unit, pdu, timeoutMs }: RtuRequest,
  clock: Pick<Clock, 'monotonicMs'>,
  signal: AbortSignal,
): Promise<Exchanged> {
  const endMs = clock.monotonicMs() + timeoutMs;
  const leftMs = (): number => Math.max(0, endMs - clock.monotonicMs());
  let noise: Uint8Array = new Uint8Array();
  let stale = hear(noise, unit, pdu);
  for (let isSilent = false; !isSilent && leftMs() > 0;) {
    const quietMs = stale.answer === undefined ? idleTimeoutMs(baud) : Math.min(leftMs(), COPY_MS);
    const bytes = await line.read(quietMs, signal);
    noise = joined(noise, bytes);
    stale = hear(noise, unit, pdu);
    isSilent = bytes.byteLength === 0;
  }
  const before = stale.answer === undefined ? stale.others : [rtuFrame(unit, stale.answer), ...stale.others];
  await line.write(rtuFrame(unit, pdu), signal);
  let bytes: Uint8Array = new Uint8Array();
  for (;;) {
    const heard = hear(bytes, unit, pdu);
    const isDamaged = heard.rest.byteLength >= SHORTEST_FRAME_BYTES;
    const waitMs = isDamaged ? Math.min(leftMs(), Math.max(PAUSE_MS, idleTimeoutMs(baud))) : leftMs();
    const isOver = heard.answer !== undefined || bytes.byteLength === MAX_HEARD_BYTES;
    const more = isOver ? new Uint8Array() : await line.read(waitMs, signal);
    if (more.byteLength === 0) return { ...heard, before };
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
function unanswered(request: RtuRequest, heard: Exchanged, isLate: boolean): TelemetryError {
  const { before, others, isEchoed, rest } = heard;
  const name = `modbus unit ${request.unit}`;
  if (rest.byteLength >= SHORTEST_FRAME_BYTES) return sourceFailed(name, `a damaged answer: ${hex(rest)}`);
  const [other = rest] = [...before, ...others];
  const instead = other.byteLength === 0 ? '' : `, but ${hex(other)}`;
  const echo = isEchoed ? '; the adapter echoes the request' : '';
  const { code, message } = late(request);
  return new TelemetryError(code, `${message}${instead}${echo}${isLate ? '; it came later' : ''}`);
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.subarray(0, 16)).toString('hex');
}
