/** Where a value is safe: written to the disk here, or accepted by the service. */
export type AcknowledgedBy = 'disk' | 'service';

/** Lets somebody wait until points are durable or delivered. */
export class Acknowledgement {
  readonly #settled = Promise.withResolvers<AcknowledgedBy>();
  #waiting: number;
  #place: AcknowledgedBy = 'service';

  constructor(points: number) {
    this.#waiting = points;
    this.#settled.promise.catch(() => {}); // nobody may listen any more
    if (points === 0) this.#settled.resolve(this.#place);
  }

  /**
   * Resolves when all points are safe: with `service` if the service has them all, else with `disk`. Rejects with
   * TelemetryError when a point is lost.
   */
  get settled(): Promise<AcknowledgedBy> {
    return this.#settled.promise;
  }

  /** One of the points is safe. */
  safe(place: AcknowledgedBy): void {
    this.#waiting -= 1;
    if (place === 'disk') this.#place = place;
    if (this.#waiting === 0) this.#settled.resolve(this.#place);
  }

  lost(why: Error): void {
    this.#settled.reject(why);
  }
}
