import type { LineSettings } from '../../../serial/line.ts';
import { AgentError, valueOrError } from '../../../system/errors.ts';
import { SerialQueue } from '../../../system/serial-queue.ts';
import type { Clock } from '../../../system/time/clock.ts';
import { Deadline } from '../../../system/time/deadline.ts';
import { TelemetryError } from '../../errors.ts';
import type { OpenSerialLine, SerialLine } from '../../ports.ts';
import { sourceFailed } from '../source.ts';
import { hear, isAnswer, lackingBytes, requireAnswerOf, rtuFrame } from './modbus-codec.ts';
import type { Heard } from './modbus-codec.ts';
import { SilentUnits } from './silent-units.ts';

export interface RtuRequest extends LineSettings {
  /** The path of the port. */
  readonly port: string;
  readonly unit: number;
  readonly pdu: Uint8Array;
  /** For the request and its answer, from the moment that they have the line. */
  readonly timeoutMs: number;
}

/** A unit on the line. */
interface Unit {
  /** One request at a time. Others to this unit wait without the line. */
  readonly turns: SerialQueue;
  /** The last request. */
  request: RtuRequest;
  /** Until then its answer may come. */
  lateMs: number;
  /** The functions of the requests without an answer, each once, in order. */
  unanswered: readonly number[];
  /** The number of readings that it answered in time, or `UNPROVED`. */
  answers: number;
  /** The number of requests for which the unit is still suspected of answering twice. */
  suspected: number;
  /** True if it was still answering when the time for copies had passed. */
  isEndless: boolean;
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
/** No request has ruled out yet that the unit answers an earlier one. */
const UNPROVED = -1;
/** A unit that leaves the first request of an agent unanswered does not hold the line for longer. */
const PROOF_MS = 2_000;
/** Functions that change nothing in a unit, the most common first. */
const readFunctions = [3, 4, 1, 2];
/** The interval at which a listener checks if another unit needs the line. */
const LISTEN_MS = 50;
/** After this silence noise or a damaged answer is over: USB adapters pass bytes on with pauses. */
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
  /** False until answers to requests of an agent that has ended had their time. */
  #isDrained = false;
  readonly #openLine: OpenSerialLine;
  readonly #clock: Monotonic;
  readonly #turns = new SerialQueue(1);
  readonly #units = new Map<number, Unit>();
  readonly #silent: SilentUnits;

  constructor(openLine: OpenSerialLine, clock: Monotonic) {
    this.#openLine = openLine;
    this.#clock = clock;
    this.#silent = new SilentUnits(clock);
  }

  /** Returns the PDU of the answer. Throws AgentError. */
  async ask(request: RtuRequest, signal: AbortSignal): Promise<Uint8Array> {
    const unit = this.#units.get(request.unit) ?? newUnit(request);
    this.#units.set(request.unit, unit);
    return unit.turns.run(async () => {
      await this.#catchUp(unit, request, signal);
      const answer = await this.#answerOf(unit, request, signal);
      unit.answers += 1;
      return answer;
    }, signal);
  }

  /**
   * Makes sure that no answer to an earlier request can be taken for the next one. A unit answers in order, so that after
   * its answer to a request with another function (also an exception) none is outstanding. A new unit may owe answers to
   * an earlier agent, or to requests from before a reload.
   */
  async #catchUp(unit: Unit, request: RtuRequest, signal: AbortSignal): Promise<void> {
    const [asked = 0] = request.pdu;
    await this.#awaitLate(unit, signal);
    if (unit.answers === UNPROVED) {
      const { request: last } = unit;
      const lateMs = this.#clock.monotonicMs() + Math.max(LATE_MS, request.timeoutMs + 1_000);
      const brief = { ...request, timeoutMs: Math.min(request.timeoutMs, PROOF_MS) }; // others need the line
      const proof = await valueOrError(this.#prove(unit, brief, [asked, ...unit.unanswered], signal));
      unit.lateMs = Math.max(unit.lateMs, lateMs);
      const isSilence = proof instanceof TelemetryError && unit.request !== last;
      if (proof instanceof AgentError && !isSilence) throw proof; // nothing was sent: the port is in use, or missing
      unit.answers = 0; // silence is enough: an answer to an earlier agent had its time, too
      await this.#awaitLate(unit, signal);
    }
    if (!unit.unanswered.includes(asked) || (await this.#prove(unit, request, unit.unanswered, signal))) return;
    await this.#awaitLate({ ...unit, lateMs: unit.lateMs + QUIET_MS }, signal);
    unit.unanswered = [];
  }

  async #awaitLate({ unanswered, lateMs }: Unit, signal: AbortSignal): Promise<void> {
    const leftMs = unanswered.length === 0 ? 0 : lateMs - this.#clock.monotonicMs();
    if (leftMs > 0) await this.#clock.sleep(leftMs, signal);
  }

  /** Makes a request with another function than these. Returns false if no function is left. */
  async #prove(unit: Unit, request: RtuRequest, owed: readonly number[], signal: AbortSignal): Promise<boolean> {
    const code = readFunctions.find((other) => !owed.includes(other));
    if (code !== undefined) await this.#answerOf(unit, { ...request, pdu: Uint8Array.of(code, 0, 0, 0, 1) }, signal);
    return code !== undefined;
  }

  /** Makes the exchange when the line is free. */
  async #answerOf(unit: Unit, request: RtuRequest, signal: AbortSignal): Promise<Uint8Array> {
    const exchange = async (): Promise<Uint8Array> => this.#exchange(unit, request, signal);
    return this.#silent.ask(request, async () => this.#turns.run(exchange, signal), signal);
  }

  async #exchange(unit: Unit, request: RtuRequest, signal: AbortSignal): Promise<Uint8Array> {
    const { port, timeoutMs, pdu } = request;
    using opening = new Deadline(timeoutMs, () => late(request), signal);
    await using line = await this.#openLine(port, request, opening.signal);
    const isSilent = (this.#isDrained && !unit.isEndless) || (await drain(line, this.#clock, signal));
    if (unit.isEndless && !isSilent)
      throw sourceFailed(`modbus unit ${request.unit}`, 'it answers again and again, so that no answer can be matched');
    this.#isDrained = true;
    const isProof = unit.unanswered.length > 0 || unit.answers % WATCHED_EVERY === 0;
    unit.request = request;
    unit.lateMs = this.#clock.monotonicMs() + Math.max(LATE_MS, timeoutMs + 1_000);
    unit.unanswered = [...unit.unanswered, ...pdu.subarray(0, 1)]; // the function
    const heard = await askByRtu(line, request, this.#clock, signal);
    for (const frame of heard.before) {
      if (isAnswer(frame, request.unit, pdu)) unit.suspected = SUSPECTED_FOR;
      else this.#noteStray(frame);
    }
    const isWatched = isProof || unit.suspected > 0;
    const answers = await this.#listen(line, unit, { heard, isWatched }, signal);
    unit.isEndless = answers > 1 && this.#clock.monotonicMs() >= unit.lateMs + COPY_MS;
    if (answers > 0) {
      unit.unanswered = [];
      unit.suspected = Math.max(0, (answers > 1 ? SUSPECTED_FOR : unit.suspected) - 1);
    }
    return requireAnswer(request, heard, answers > 0);
  }

  /**
   * Listens for a late answer, until another unit needs the line. It has to wait while a watched unit may answer again.
   * Returns the number of answers.
   */
  async #listen(
    line: SerialLine,
    { request: { unit, pdu }, lateMs }: Unit,
    { heard, isWatched }: { readonly heard: Heard; readonly isWatched: boolean },
    signal: AbortSignal,
  ): Promise<number> {
    let { rest } = heard;
    let answers = 0;
    let endMs = lateMs;
    const note = (more: Heard): void => {
      // bytes in the form of the whole answer: no other answer to this request is to come
      const isDamaged = more.answer === undefined && lackingBytes(more.rest, unit, pdu) === 0;
      const copies = more.others.filter((frame) => isAnswer(frame, unit, pdu)).length;
      const came = copies + (more.answer !== undefined || isDamaged ? 1 : 0);
      rest = isDamaged ? new Uint8Array() : more.rest;
      answers += came;
      if (came > 0) endMs = Math.min(this.#clock.monotonicMs() + COPY_MS, lateMs + COPY_MS);
      if (more.answer !== undefined || more.isEchoed) this.isEchoing = more.isEchoed;
      for (const frame of more.others) if (!isAnswer(frame, unit, pdu)) this.#noteStray(frame);
    };
    note(heard);
    const mayGoOn = (): boolean => (answers === 0 ? this.#turns.waiting === 0 : isWatched || answers > 1);
    for (let leftMs = endMs - this.#clock.monotonicMs(); mayGoOn() && leftMs > 0;) {
      rest = joined(rest, await line.read(Math.min(leftMs, LISTEN_MS), signal));
      note(hear(rest, unit, pdu));
      leftMs = endMs - this.#clock.monotonicMs();
    }
    return answers;
  }

  /** Notes an answer of another unit: a late one, or a copy. */
  #noteStray(frame: Uint8Array): void {
    const [number = 0] = frame;
    const unit = this.#units.get(number);
    if (unit === undefined || !isAnswer(frame, number, unit.request.pdu)) return;
    if (unit.unanswered.length === 0) unit.suspected = SUSPECTED_FOR;
    unit.unanswered = [];
  }
}

function newUnit(request: RtuRequest): Unit {
  return {
    turns: new SerialQueue(1),
    request,
    lateMs: 0,
    unanswered: [],
    answers: UNPROVED,
    suspected: 0,
    isEndless: false,
  };
}

/** Waits until the line was silent for a second, at most as long as an answer may be late. Returns true if it was. */
async function drain(line: SerialLine, clock: Monotonic, signal: AbortSignal): Promise<boolean> {
  const endMs = clock.monotonicMs() + LATE_MS;
  let isSilent = false;
  while (!isSilent && clock.monotonicMs() < endMs) isSilent = (await line.read(COPY_MS, signal)).byteLength === 0;
  return isSilent;
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
    const isDamaged = heard.rest.byteLength >= SHORTEST_FRAME_BYTES && (lackingBytes(heard.rest, unit, pdu) ?? 0) <= 0;
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

/** Returns the PDU of the answer, or throws TelemetryError with the reason why there is none. */
export function requireAnswer(request: RtuRequest, heard: Exchanged, isLate = false): Uint8Array {
  const { answer, before, others, isEchoed, rest } = heard;
  if (answer !== undefined) return requireAnswerOf(request.unit, answer);
  const name = `modbus unit ${request.unit}`;
  if (rest.byteLength >= SHORTEST_FRAME_BYTES) throw sourceFailed(name, `a damaged answer: ${hex(rest)}`);
  const [other = rest] = [...before, ...others];
  const instead = other.byteLength === 0 ? '' : `, but ${hex(other)}`;
  const echo = isEchoed ? '; the adapter echoes the request' : '';
  const { code, message } = late(request);
  throw new TelemetryError(code, `${message}${instead}${echo}${isLate ? '; it came later' : ''}`);
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.subarray(0, 16)).toString('hex');
}
