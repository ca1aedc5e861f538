/** Somebody waits until points are durable or delivered. */
export class Receipt {
  readonly #settled = Promise.withResolvers<void>();
  #waiting: number;

  constructor(points: number) {
    this.#waiting = points;
    this.#settled.promise.catch(() => {}); // nobody may listen any more
    if (points === 0) this.#settled.resolve();
  }

  /** Resolves when all points are safe; rejects with TelemetryError when one is lost. */
  get settled(): Promise<void> {
    return this.#settled.promise;
  }

  /** One of them. */
  safe(): void {
    this.#waiting -= 1;
    if (this.#waiting === 0) this.#settled.resolve();
  }

  lost(why: Error): void {
    this.#settled.reject(why);
  }
}
