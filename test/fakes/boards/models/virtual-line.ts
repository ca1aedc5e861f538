import { SerialError } from '../../../../src/serial/errors.ts';
import type { Line, LineSettings, ModemLines } from '../../../../src/serial/line.ts';
import { ManualClock } from '../../clock.ts';
import type { BoardModel, Said } from './board-model.ts';

export type Direction = 'to-board' | 'to-host';

/** A fault on the wire at the nth byte in a direction. */
export interface Fault {
  /**
   * `late`: the byte and its successors arrive much later, once. `replay`: the last bytes in this direction arrive
   * again. `echo`: from then on, the host receives its own output.
   */
  readonly kind: 'drop' | 'flip' | 'insert' | 'mute' | 'garbage' | 'unplug' | 'late' | 'replay' | 'echo';
  readonly direction: Direction;
  readonly at: number;
  /** Which bit a flip flips; by chance where it is not given. */
  readonly bit?: number;
}

const mutedForMs = 1_500;
const garbageBytes = 64;
const shortBytes = 48;
const unpluggedForMs = 3_000;
const lateForMs = 700;
const replayedBytes = 160;

/** A serial port with a board behind it, in virtual time: pacing, latency and faults are exact and repeatable. */
export class VirtualPort {
  readonly clock = new ManualClock(0);
  #model: BoardModel;
  readonly #latencyMs: number;
  readonly #counts: Record<Direction, number> = { 'to-board': 0, 'to-host': 0 };
  #faults: readonly Fault[] = [];
  #mutedUntilMs = 0;
  #goneUntilMs = -1;
  #generation = 0;
  #noise = 1;
  #echoes = false;
  #replays = false;
  readonly #said: Record<Direction, readonly number[]> = { 'to-board': [], 'to-host': [] };
  #arrivals: { readonly byte: number; readonly atMs: number }[] = [];
  /** Number of these bytes that the host has read. */
  #taken = 0;
  #boardIdleMs = 0;
  #hostIdleMs = 0;
  #dtr = true;
  /** Offsets, in bytes to the host, where replies of a few bytes began. */
  readonly shortAnswers: number[] = [];
  settings: LineSettings = { baud: 115_200, parity: 'none' };
  /** The board to which the port leads when it returns. */
  replacement: BoardModel;

  constructor(model: BoardModel, latencyMs = 0) {
    this.#model = model;
    this.replacement = model;
    this.#latencyMs = latencyMs;
  }

  get counts(): Readonly<Record<Direction, number>> {
    return this.#counts;
  }

  /** From now on; counted from here. */
  inject(...faults: readonly Fault[]): void {
    this.#faults = faults;
    this.#echoes = false;
    this.#replays = faults.some(({ kind }) => kind === 'replay');
    this.#counts['to-board'] = 0;
    this.#counts['to-host'] = 0;
  }

  readonly open = async (settings: LineSettings): Promise<Line> => {
    if (this.clock.monotonicMs() < this.#goneUntilMs) throw new SerialError('port-missing', 'no such port');
    this.changeSettings(settings);
    this.#forget();
    return new VirtualLine(this, this.#generation);
  };

  changeSettings(settings: LineSettings): void {
    this.settings = settings;
    this.#model.settings?.(settings.baud);
  }

  check(generation: number): void {
    if (generation !== this.#generation) throw new SerialError('port-disconnected', 'the port has gone');
  }

  send(bytes: Uint8Array): void {
    for (const byte of bytes) {
      this.#boardIdleMs = Math.max(this.#boardIdleMs, this.clock.monotonicMs()) + this.#characterMs;
      const due = this.#dueFault('to-board', byte);
      if (this.#echoes) this.#arrivals.push({ byte, atMs: this.#boardIdleMs + this.#latencyMs });
      if (due === 'none') this.#deliver(byte);
      else if (due !== 'muted') for (const arriving of this.#strike(due, byte)) this.#deliver(arriving);
    }
  }

  take(timeoutMs: number): Uint8Array {
    if (this.#taken === this.#arrivals.length)
      this.#hear(this.#model.poll?.(this.clock.monotonicMs() + timeoutMs) ?? []);
    const first = this.#arrivals[this.#taken];
    const waitMs =
      first === undefined ? timeoutMs : Math.min(timeoutMs, Math.max(0, first.atMs - this.clock.monotonicMs()));
    this.clock.advance(waitMs);
    const nowMs = this.clock.monotonicMs();
    const taken: number[] = [];
    for (;;) {
      const next = this.#arrivals[this.#taken];
      if (next === undefined || next.atMs > nowMs + 1e-9) break;
      taken.push(next.byte);
      this.#taken += 1;
    }
    if (this.#taken === this.#arrivals.length) this.#forget();
    return Uint8Array.of(...taken);
  }

  #forget(): void {
    this.#arrivals = [];
    this.#taken = 0;
  }

  setModem({ dtr, rts }: ModemLines): void {
    const model = this.#model;
    if (model.modem !== undefined) return this.#hear(model.modem({ dtr, rts }, this.clock.monotonicMs()));
    const resets = this.#model.resetsWhenDtr === 'asserted' ? dtr && !this.#dtr : !dtr && this.#dtr;
    if (resets) this.#model.reset(this.clock.monotonicMs());
    this.#dtr = dtr;
  }

  get #characterMs(): number {
    return ((this.settings.parity === 'none' ? 10 : 11) * 1000) / this.settings.baud;
  }

  #deliver(byte: number): void {
    this.#hear(this.#model.receive(byte, this.#boardIdleMs));
  }

  #hear(said: readonly Said[]): void {
    for (const { bytes, atMs } of said) {
      if (bytes.byteLength <= shortBytes) this.shortAnswers.push(this.#counts['to-host'] + 1);
      for (const answer of bytes) {
        this.#hostIdleMs = Math.max(this.#hostIdleMs, atMs) + this.#characterMs;
        this.#answer(answer);
      }
    }
  }

  #answer(answer: number): void {
    const due = this.#dueFault('to-host', answer);
    if (due === 'none') this.#arrive(answer);
    else if (due !== 'muted') for (const arriving of this.#strike(due, answer)) this.#arrive(arriving);
  }

  #arrive(byte: number): void {
    this.#arrivals.push({ byte, atMs: this.#hostIdleMs + this.#latencyMs });
  }

  /** Returns the effect on the next byte in a direction. It is nearly always none, and allocates nothing then. */
  #dueFault(direction: Direction, byte: number): Fault | 'none' | 'muted' {
    this.#counts[direction] += 1;
    if (this.#replays) this.#said[direction] = [...this.#said[direction], byte].slice(-replayedBytes);
    if (this.clock.monotonicMs() < this.#mutedUntilMs) return 'muted';
    if (this.#faults.length === 0) return 'none';
    const count = this.#counts[direction];
    return this.#faults.find((fault) => fault.direction === direction && fault.at === count) ?? 'none';
  }

  #strike({ kind, bit, direction }: Fault, byte: number): readonly number[] {
    switch (kind) {
      case 'drop':
        return [];
      case 'flip':
        return [byte ^ (1 << (bit ?? this.#random(8)))];
      case 'insert':
        return [this.#random(256), byte];
      case 'garbage':
        return [...Array.from({ length: garbageBytes }, () => this.#random(256)), byte];
      case 'late':
        if (direction === 'to-board') this.#boardIdleMs += lateForMs;
        else this.#hostIdleMs += lateForMs;
        return [byte];
      case 'replay':
        return [...this.#said[direction], byte];
      case 'echo':
        this.#echoes = true;
        return [byte];
      case 'mute':
        this.#mutedUntilMs = this.clock.monotonicMs() + mutedForMs;
        return [];
      case 'unplug':
        this.#generation += 1;
        this.#goneUntilMs = this.clock.monotonicMs() + unpluggedForMs;
        this.#model = this.replacement;
        return [];
    }
  }

  /** A small linear congruential generator: the same noise in every run. */
  #random(below: number): number {
    this.#noise = (Math.imul(this.#noise, 1_103_515_245) + 12_345) & 0x7fffffff;
    return Math.floor((this.#noise / 0x80000000) * below);
  }
}

class VirtualLine implements Line {
  readonly name = 'virtual';
  readonly #port: VirtualPort;
  readonly #generation: number;

  constructor(port: VirtualPort, generation: number) {
    this.#port = port;
    this.#generation = generation;
  }

  get baud(): number {
    return this.#port.settings.baud;
  }

  get bitsPerCharacter(): number {
    return this.#port.settings.parity === 'none' ? 10 : 11;
  }

  async write(bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.#port.check(this.#generation);
    this.#port.send(bytes);
  }

  async read(timeoutMs: number, signal: AbortSignal): Promise<Uint8Array> {
    signal.throwIfAborted();
    this.#port.check(this.#generation);
    return this.#port.take(timeoutMs);
  }

  async setModem(lines: ModemLines): Promise<boolean> {
    this.#port.check(this.#generation);
    this.#port.setModem(lines);
    return true;
  }

  async setBaud(baud: number): Promise<void> {
    this.#port.check(this.#generation);
    this.#port.changeSettings({ ...this.#port.settings, baud });
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}
