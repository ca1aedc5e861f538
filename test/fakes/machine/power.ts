/** Thrown by everything that a machine without power tries to do. */
export class PowerCut extends Error {
  override readonly name = 'PowerCut';
}

/** A power supply that can fail on request: every durable operation passes through it, before and after. */
export class Power {
  #left = Number.POSITIVE_INFINITY;
  #failed = false;
  #steps = 0;
  #names: string[] = [];

  /** Prevents the step with this number, counted from now. */
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

  /** Steps since `cutAfter`, for failure messages. */
  get history(): readonly string[] {
    return this.#names;
  }

  /** Requires a running machine for an operation without changes. */
  need(name: string): void {
    if (this.isOut) throw new PowerCut(name);
  }

  /** Now, as a watchdog does. */
  fail(name: string): never {
    this.#failed = true;
    throw new PowerCut(name);
  }

  /** Restores power after `fail`. The setting of `cutAfter` stays in force. */
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
