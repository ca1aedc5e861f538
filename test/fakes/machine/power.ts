/** Thrown by everything that a machine without power tries to do. */
export class PowerCut extends Error {
  override readonly name = 'PowerCut';
}

/** A power supply that can be told to fail: everything durable asks it before and after it happens. */
export class Power {
  #left = Number.POSITIVE_INFINITY;
  #failed = false;
  #steps = 0;
  #names: string[] = [];

  /** The step with this number, counted from now, does not happen any more. */
  cutAfter(steps: number): void {
    this.#left = steps;
    this.#failed = false;
    this.#steps = 0;
    this.#names = [];
  }

  restore(): void {
    this.cutAfter(Number.POSITIVE_INFINITY);
  }

  get isOut(): boolean {
    return this.#failed || this.#left <= 0;
  }

  get steps(): number {
    return this.#steps;
  }

  /** What happened since `cutAfter`, for a person who reads a failure. */
  get history(): readonly string[] {
    return this.#names;
  }

  /** For what changes nothing but needs a running machine. */
  need(name: string): void {
    if (this.isOut) throw new PowerCut(name);
  }

  /** Now, as a watchdog does. */
  fail(name: string): never {
    this.#failed = true;
    throw new PowerCut(name);
  }

  /** After `fail`: on again, and what `cutAfter` said holds. */
  resume(): void {
    this.#failed = false;
  }

  step(name: string): void {
    this.need(name);
    this.#left -= 1;
    this.#steps += 1;
    this.#names.push(name);
    if (this.#left <= 0) throw new PowerCut(name);
  }
}

/** mulberry32: small, seeded, good enough to choose faults with. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000;
  };
}
