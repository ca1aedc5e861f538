import { describe, expect, test } from 'vitest';

import { Connection } from '../../../../../src/mcu/connection.ts';
import type { Board } from '../../../../../src/mcu/connection.ts';
import { isBoardError } from '../../../../../src/mcu/errors.ts';
import { flash } from '../../../../../src/mcu/flash/flash.ts';
import type { Protocol } from '../../../../../src/mcu/protocol.ts';
import type { Line } from '../../../../../src/serial/line.ts';
import { silentLog } from '../../../../../src/system/log/log.ts';
import { ManualClock } from '../../../../fakes/clock.ts';
import { chipsFound, imageOf, rigOf } from '../fault-matrix.ts';
import type { Subject } from '../fault-matrix.ts';

const forever = new AbortController().signal;
/** Invariant 6: a connection fails within this time, whatever the board sends. */
const LONGEST_MS = 180_000;
const MAX_ANSWER_BYTES = 1024 * 1024;
const MAX_WORK_MS = 120_000;
const MAX_TURNS = 10_000;

/** A line on which a board sends what the test wants, as fast as it is read, in virtual time. */
class HostileLine implements Line {
  readonly name = 'hostile';
  readonly bitsPerCharacter = 10;
  readonly clock = new ManualClock(0);
  baud = 115_200;
  opened = 0;
  closed = 0;
  readonly #next: () => Uint8Array;

  constructor(next: () => Uint8Array) {
    this.#next = next;
  }

  board({ protocol, baud }: Pick<Subject, 'protocol' | 'baud'>): Board {
    const openLine = async (): Promise<Line> => {
      this.opened += 1;
      return this;
    };
    const { clock } = this;
    return { name: 'board', protocol: protocol(), baud, reset: 'dtr', openLine, clock, log: silentLog };
  }

  async write(_: Uint8Array, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
  }

  async read(timeoutMs: number, signal: AbortSignal): Promise<Uint8Array> {
    const bytes = this.#next();
    signal.throwIfAborted();
    this.clock.advance(
      bytes.byteLength === 0 ? timeoutMs : (bytes.byteLength * this.bitsPerCharacter * 1_000) / this.baud,
    );
    return bytes;
  }

  async setModem(): Promise<boolean> {
    return true;
  }

  async setBaud(baud: number): Promise<void> {
    this.baud = baud;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.closed += 1;
  }
}

/** Returns the same noise again and again, beginning elsewhere each time. */
function noise(length: number): () => Uint8Array {
  const bytes = Uint8Array.from(
    { length: length + 251 },
    (_, index) => (index * index * 31 + (index >> 3) * 89) & 0xff,
  );
  let reads = 0;
  return () => bytes.subarray((reads += 1) % 251, (reads % 251) + length);
}

/** Guarantees of a protocol to the agent, for any behavior of its board. */
export function protocolContract(name: string, subject: Subject): void {
  describe(`${name} as a protocol`, () => {
    test('gives each turn a deadline and a bound, and ends without an answer', () => {
      const turns = turnsWithoutAnswer(subject.protocol());
      expect(turns.length).toBeGreaterThan(0);
      expect(turns.length).toBeLessThan(MAX_TURNS);
      for (const turn of turns) {
        if (turn.kind !== 'exchange') continue;
        expect(turn.workMs).toBeLessThanOrEqual(MAX_WORK_MS);
        expect(turn.answer.atMost).toBeLessThanOrEqual(MAX_ANSWER_BYTES);
      }
    });

    test('fails with a code when the board is silent', async () => {
      const line = new HostileLine(() => new Uint8Array());
      await expect(Connection.to(line.board(subject), forever)).rejects.toMatchObject({ code: 'board-timeout' });
    });

    test.each([
      ['is silent', () => new Uint8Array()],
      ['sends garbage', noise(64)],
      ['never stops sending', noise(16 * 1024)],
    ])('connects or fails with a code in time when the board %s, and closes the line', async (_, next) => {
      const line = new HostileLine(next);
      const error = await Connection.to(line.board(subject), forever)
        .then(async (connection) => connection[Symbol.asyncDispose]())
        .catch((thrown: unknown) => thrown);
      expect(error === undefined || isBoardError(error)).toBe(true);
      expect(line.clock.monotonicMs()).toBeLessThan(LONGEST_MS);
      expect(line.closed).toBe(line.opened);
    });

    test('finds the same chip and the same room for images whatever bit is flipped first', async () => {
      expect((await chipsFound(subject)).size).toBe(1);
    });

    test.each([1, 2, 5])('ends with the reason of its signal at read %i, and closes the line', async (at) => {
      const ending = new AbortController();
      const reason = new Error('the test ends it');
      let reads = 0;
      const line = new HostileLine(() => {
        reads += 1;
        if (reads === at) ending.abort(reason);
        return new Uint8Array();
      });
      await expect(Connection.to(line.board(subject), ending.signal)).rejects.toBe(reason);
      expect(line.closed).toBe(line.opened);
    });

    test('serves another connection after one was dropped, and after the board was restarted', async () => {
      const { model, port, board } = rigOf(subject);
      const dropped = await Connection.to(board, forever);
      await dropped[Symbol.asyncDispose]();
      model.power(port.clock.monotonicMs());
      for (let times = 0; times < 2; times += 1) await flash({ image: imageOf(subject) }, board, forever);
      expect(Buffer.compare(model.memory, subject.programs.new)).toBe(0);
    });
  });
}

/** Returns the turns of a connection whose board is silent, at most `MAX_TURNS`. */
function turnsWithoutAnswer(protocol: Protocol) {
  const conversation = protocol.connect();
  const turns = [];
  try {
    for (let step = conversation.next(); step.done !== true && turns.length < MAX_TURNS;) {
      turns.push(step.value);
      step = conversation.next({ bytes: new Uint8Array(), whole: step.value.kind !== 'exchange' });
    }
  } catch (error) {
    if (!isBoardError(error)) throw error;
  }
  return turns;
}
