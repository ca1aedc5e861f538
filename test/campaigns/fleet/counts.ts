import type { Scenario } from './scenarios.ts';

const MINUTE_MS = 60_000;
/** Number of tries of a call (docs/service-protocol.md). */
const MOST_TRIES = 4;

/** Counts that decide about a scenario. */
export class Counts {
  readonly perMinute: Uint32Array;
  readonly refusedPerMinute: Uint32Array;
  readonly #perSecond: Uint32Array;
  readonly #looks: Uint16Array;
  readonly #starts: Uint8Array;
  readonly #updatesPerMinute: Uint32Array;
  #unpromised = 0;
  #bytes = 0;
  #updated = 0;
  #lastUpdateMs = 0;

  constructor({ things, endMs }: Pick<Scenario, 'things' | 'endMs'>) {
    const minutes = Math.ceil(endMs / MINUTE_MS) + 1;
    this.perMinute = new Uint32Array(minutes);
    this.refusedPerMinute = new Uint32Array(minutes);
    this.#updatesPerMinute = new Uint32Array(minutes);
    this.#perSecond = new Uint32Array(minutes * 60);
    this.#looks = new Uint16Array(things);
    this.#starts = new Uint8Array(things);
  }

  request(nowMs: number, isAnswered: boolean, tries: number): void {
    add(this.perMinute, nowMs / MINUTE_MS);
    add(this.#perSecond, nowMs / 1000);
    if (!isAnswered) add(this.refusedPerMinute, nowMs / MINUTE_MS);
    if (tries > MOST_TRIES) this.#unpromised += 1;
  }

  look(thing: number): void {
    add(this.#looks, thing);
  }

  start(thing: number): void {
    add(this.#starts, thing);
  }

  transferred(bytes: number): void {
    this.#bytes += bytes;
  }

  updated(nowMs: number): void {
    this.#updated += 1;
    this.#lastUpdateMs = Math.max(this.#lastUpdateMs, nowMs);
    add(this.#updatesPerMinute, nowMs / MINUTE_MS);
  }

  get bytes(): number {
    return this.#bytes;
  }

  get updates(): { readonly count: number; readonly lastMs: number } {
    return { count: this.#updated, lastMs: this.#lastUpdateMs };
  }

  get updatesPerMinute(): Uint32Array {
    return this.#updatesPerMinute;
  }

  busiestSecond(fromMs: number, toMs: number): number {
    return this.#perSecond.subarray(fromMs / 1000, toMs / 1000).reduce((most, count) => Math.max(most, count), 0);
  }

  /** Checks beyond one per scheduled time and start, and tries beyond the limit of a call. */
  unpromised(times: number): number {
    return this.#looks.reduce((sum, looks, thing) => {
      return sum + Math.max(0, looks - times - (this.#starts[thing] ?? 0));
    }, this.#unpromised);
  }
}

function add(counts: Uint32Array | Uint16Array | Uint8Array, at: number): void {
  const index = Math.floor(at);
  const count = counts[index];
  if (count !== undefined) counts[index] = count + 1;
}
