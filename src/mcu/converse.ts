import type { Line } from '../serial/line.ts';
import type { Clock } from '../system/time/clock.ts';
import { McuError } from './errors.ts';
import { LineTiming } from './line-timing.ts';
import type { Conversation, Discard, Exchange, Reply, Turn } from './protocol.ts';

/** Invariant 6: the longest wait for a line that never falls quiet. */
const maxDiscardMs = 2_000;
/** The amount of noise that is kept, beyond the longest answer, while the answer is searched in it. */
const maxNoiseBytes = 8 * 1024;
/** The most MiB that are discarded before a conversation succeeds: more than a console prints in that time. */
const maxDiscardMib = 4;

const nothing: Reply = { bytes: new Uint8Array(), whole: true };

/** Runs conversations over a line. Protocols and I/O meet only here. */
export class Converser {
  readonly pace: LineTiming;
  readonly #line: Line;
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  #received: Buffer = Buffer.alloc(0);
  #discardedBytes = 0;

  constructor(line: Line, clock: Pick<Clock, 'monotonicMs'>) {
    this.#line = line;
    this.#clock = clock;
    this.pace = new LineTiming(line.baud, line.bitsPerCharacter);
  }

  async converse<T>(conversation: Conversation<T>, signal: AbortSignal): Promise<T> {
    let step = conversation.next();
    while (step.done !== true) {
      signal.throwIfAborted();
      step = conversation.next(await this.#take(step.value, signal));
    }
    this.#discardedBytes = 0;
    return step.value;
  }

  async changeBaud(baud: number, signal: AbortSignal): Promise<void> {
    if (this.#line.baud === baud) return;
    await this.#line.setBaud(baud, signal);
    this.pace.changeBaud(baud);
  }

  async #take(turn: Turn, signal: AbortSignal): Promise<Reply> {
    switch (turn.kind) {
      case 'exchange':
        return this.#exchange(turn, signal);
      case 'discard':
        return this.#discard(turn, signal);
      case 'baud':
        await this.changeBaud(turn.baud, signal);
        return nothing;
    }
  }

  async #exchange(turn: Exchange, signal: AbortSignal): Promise<Reply> {
    if (!turn.pipelined) await this.#dropStale(signal);
    const startMs = this.#clock.monotonicMs();
    const endMs = startMs + this.pace.deadlineMs(turn);
    if (turn.send.byteLength > 0) await this.#line.write(turn.send, signal);
    for (;;) {
      const length = turn.answer.length(this.#received);
      const nowMs = this.#clock.monotonicMs();
      if (length > 0) {
        this.pace.observe(turn, length, nowMs - startMs);
        return this.#consume(length, true);
      }
      const tooMuch = this.#received.byteLength > turn.answer.atMost + maxNoiseBytes;
      if (nowMs >= endMs || tooMuch) return this.#consume(this.#received.byteLength, false);
      const chunk = await this.#line.read(endMs - nowMs, signal);
      if (chunk.byteLength > 0) this.#received = Buffer.concat([this.#received, chunk]);
    }
  }

  async #dropStale(signal: AbortSignal): Promise<void> {
    this.#received = Buffer.alloc(0);
    await this.#line.read(0, signal);
  }

  #consume(length: number, whole: boolean): Reply {
    const bytes = this.#received.subarray(0, length);
    this.#received = this.#received.subarray(length);
    return { bytes, whole };
  }

  async #discard({ quietMs }: Discard, signal: AbortSignal): Promise<Reply> {
    this.#received = Buffer.alloc(0);
    const endMs = this.#clock.monotonicMs() + maxDiscardMs;
    for (;;) {
      const chunk = await this.#line.read(quietMs, signal);
      this.#discardedBytes += chunk.byteLength;
      if (this.#discardedBytes > maxDiscardMib * 1024 * 1024)
        throw new McuError('board-bad-response', `the board sent more than ${maxDiscardMib} MiB that answer nothing`, {
          remedy: 'give-up',
          advice: 'check that this is the port of the board, and stop the program that prints on it',
        });
      if (chunk.byteLength === 0 || this.#clock.monotonicMs() >= endMs) return nothing;
    }
  }
}
