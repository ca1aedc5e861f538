/** Where a value is safe: written here, or taken by the service. */
export type SafePlace = 'disk' | 'service';

/** Somebody waits until points are durable or delivered. */
export class Receipt {
  readonly #settled = Promise.withResolvers<SafePlace>();
  #waiting: number;
  #place: SafePlace = 'service';

  constructor(points: number) {
    this.#waiting = points;
    this.#settled.promise.catch(() => {}); // nobody may listen any more
    if (points === 0) this.#settled.resolve(this.#place);
  }

  /** Resolves when all points are safe, with `disk` unless the service has them all; rejects with TelemetryError when one is lost. */
  get settled(): Promise<SafePlace> {
    return this.#settled.promise;
  }

  /** One of them. */
  safe(place: SafePlace): void {
    this.#waiting -= 1;
    if (place === 'disk') this.#place = place;
    if (this.#waiting === 0) this.#settled.resolve(this.#place);
  }

  lost(why: Error): void {
    this.#settled.reject(why);
  }
}
