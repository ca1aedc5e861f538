const NONE = -1;
const BUCKET_MS = 250;

/** The next due time of each of many things: buckets of a quarter of a second, chained in typed arrays. */
export class CalendarQueue {
  readonly #first: Int32Array;
  readonly #next: Int32Array;
  readonly #dueMs: Float64Array;

  constructor(members: number, horizonMs: number) {
    this.#first = new Int32Array(Math.ceil(horizonMs / BUCKET_MS)).fill(NONE);
    this.#next = new Int32Array(members).fill(NONE);
    this.#dueMs = new Float64Array(members).fill(Number.POSITIVE_INFINITY);
  }

  dueMs(member: number): number {
    return this.#dueMs[member] ?? Number.POSITIVE_INFINITY;
  }

  /** Beyond the horizon it never comes. */
  add(member: number, dueMs: number): void {
    this.#dueMs[member] = dueMs;
    const bucket = Math.floor(dueMs / BUCKET_MS);
    const first = this.#first[bucket];
    if (first === undefined) return;
    this.#next[member] = first;
    this.#first[bucket] = member;
  }

  /** Each in its turn, until nothing is due before then; what is due within one bucket is sorted. */
  runUntil(fromMs: number, untilMs: number, handle: (member: number, nowMs: number) => void): void {
    const last = Math.min(this.#first.length, Math.ceil(untilMs / BUCKET_MS));
    for (let bucket = Math.floor(fromMs / BUCKET_MS); bucket < last; bucket += 1) {
      for (let due = this.#take(bucket); due.length > 0; due = this.#take(bucket)) {
        for (const member of due) handle(member, this.dueMs(member));
      }
    }
  }

  /** Removes everything. */
  clear(): void {
    this.#first.fill(NONE);
  }

  #take(bucket: number): readonly number[] {
    const members: number[] = [];
    for (let at = this.#first[bucket] ?? NONE; at !== NONE; at = this.#next[at] ?? NONE) members.push(at);
    this.#first[bucket] = NONE;
    return members.length < 2 ? members : members.sort((a, b) => this.dueMs(a) - this.dueMs(b));
  }
}
