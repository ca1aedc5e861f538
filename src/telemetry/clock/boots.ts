import type { BootRecord } from '../queue/database/records.ts';

/** The least time between the end of a boot whose clock was never set and the start of the next one. */
const REBOOT_MS = 1_000;

/** This boot and earlier ones, with their beginnings, which date the datapoints that came while the clock was not set. */
export class Boots {
  readonly #name: string;
  #known: BootRecord[];
  #current: BootRecord;
  /** The number of boots whose clock was never set: the times of their points are the latest possible ones. */
  estimated = 0;

  constructor(name: string) {
    this.#name = name;
    this.#current = { id: 1, name, lastMs: 0, startedAtMs: undefined };
    this.#known = [this.#current];
  }

  get current(): BootRecord {
    return this.#current;
  }

  get all(): readonly BootRecord[] {
    return this.#known;
  }

  /** Takes over the boots of a database. Returns whether it was already of this boot. */
  adopt(records: readonly BootRecord[]): boolean {
    const { startedAtMs, lastMs } = this.#current;
    const here = records.find((record) => record.name === this.#name);
    const id = here?.id ?? Math.max(0, ...records.map((record) => record.id)) + 1;
    this.#current = {
      id,
      name: this.#name,
      lastMs: Math.max(lastMs, here?.lastMs ?? 0),
      startedAtMs: startedAtMs ?? here?.startedAtMs,
    };
    this.#known = [...records.filter((record) => record.id !== id), this.#current].sort((a, b) => a.id - b.id);
    if (this.#current.startedAtMs !== undefined) this.learnStart(this.#current.startedAtMs);
    return here !== undefined;
  }

  note(sinceBootMs: number): void {
    if (sinceBootMs > this.#current.lastMs) this.#replace({ ...this.#current, lastMs: sinceBootMs });
  }

  /** Notes when this boot began, by a clock that is set. Earlier boots without a beginning get an estimate. */
  learnStart(startedAtMs: number): void {
    this.#replace({ ...this.#current, startedAtMs });
    let next = startedAtMs;
    for (const boot of this.#known.toReversed()) {
      if (boot.id >= this.#current.id) continue;
      if (boot.startedAtMs === undefined) {
        this.#replace({ ...boot, startedAtMs: Math.max(0, next - REBOOT_MS - boot.lastMs) });
        this.estimated += 1;
      }
      next = Math.min(next, boot.startedAtMs ?? next - REBOOT_MS - boot.lastMs);
    }
  }

  /** Returns the wall clock at a moment, once the clock is set. The record of a boot may be lost by damage. */
  wallMs(boot: number, sinceBootMs: number): number {
    const { startedAtMs = 0 } = this.#known.find((record) => record.id === boot) ?? this.#current;
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
    const past = this.#known.filter(({ id }) => id !== this.#current.id);
    if (past.length > 0) this.#known = [this.#current];
    return past;
  }

  #replace(record: BootRecord): void {
    this.#known = this.#known.map((boot) => (boot.id === record.id ? record : boot));
    if (record.id === this.#current.id) this.#current = record;
  }
}
