import type { BootRecord } from '../queue/database/records.ts';

/** The least time between the end of a boot whose clock was never set and the start of the next one. */
const REBOOT_MS = 1_000;

/** This boot and earlier ones, with their beginnings, which date the datapoints that came while the clock was not set. */
export class Boots {
  /** Earlier boots, oldest first. */
  #past: readonly BootRecord[] = [];
  #current: BootRecord;
  /** The number of boots whose clock was never set: the times of their points are the latest possible ones. */
  estimated = 0;

  constructor(name: string) {
    this.#current = { id: 1, name, lastMs: 0, startedAtMs: undefined };
  }

  get current(): BootRecord {
    return this.#current;
  }

  get all(): readonly BootRecord[] {
    return [...this.#past, this.#current];
  }

  /** Takes over the boots of a database, oldest first. Returns whether it was already of this boot. */
  adopt(records: readonly BootRecord[]): boolean {
    const { name, startedAtMs, lastMs } = this.#current;
    const here = records.find((record) => record.name === name);
    this.#past = records.filter((record) => record !== here);
    this.#current = {
      id: here?.id ?? Math.max(0, ...records.map((record) => record.id)) + 1,
      name,
      lastMs: Math.max(lastMs, here?.lastMs ?? 0),
      startedAtMs: startedAtMs ?? here?.startedAtMs,
    };
    if (this.#current.startedAtMs !== undefined) this.learnStart(this.#current.startedAtMs);
    return here !== undefined;
  }

  note(sinceBootMs: number): void {
    if (sinceBootMs > this.#current.lastMs) this.#current = { ...this.#current, lastMs: sinceBootMs };
  }

  /** Notes when this boot began, by a clock that is set. Earlier boots without a beginning get an estimate. */
  learnStart(startedAtMs: number): void {
    this.#current = { ...this.#current, startedAtMs };
    const past: BootRecord[] = [];
    let nextMs = startedAtMs;
    for (const boot of this.#past.toReversed()) {
      const beganMs = boot.startedAtMs ?? nextMs - REBOOT_MS - boot.lastMs;
      if (boot.startedAtMs === undefined) this.estimated += 1;
      past.unshift({ ...boot, startedAtMs: Math.max(0, beganMs) });
      nextMs = Math.min(nextMs, beganMs);
    }
    this.#past = past;
  }

  /** Returns the wall clock at a moment, once the clock is set. The record of a boot may be lost by damage. */
  wallMs(boot: number, sinceBootMs: number): number {
    const { startedAtMs = 0 } = this.#past.find((record) => record.id === boot) ?? this.#current;
    return startedAtMs + sinceBootMs;
  }

  /** Returns the time since a moment, or undefined if it is still unknown. */
  ageMs(boot: number, sinceBootMs: number, nowSinceBootMs: number): number | undefined {
    if (boot === this.#current.id) return nowSinceBootMs - sinceBootMs;
    if (this.#current.startedAtMs === undefined) return undefined;
    return this.wallMs(this.#current.id, nowSinceBootMs) - this.wallMs(boot, sinceBootMs);
  }

  /** Forgets earlier boots, and returns them. */
  forgetPast(): readonly BootRecord[] {
    const past = this.#past;
    this.#past = [];
    return past;
  }
}
