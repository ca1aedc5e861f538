/**
 * MQTT 5.0, section 3.1.2.10: we send something within each keep-alive time. A broker that sends nothing for half of it
 * after a ping is silent. While the broker sends a large message it cannot answer a ping, and its bytes count as a sign
 * of life.
 */
export class KeepAlive implements Disposable {
  readonly #ms: number;
  readonly #onSilence: () => void;
  readonly #quiet: NodeJS.Timeout;
  #silence: NodeJS.Timeout | undefined;

  constructor(ms: number, ping: () => void, onSilence: () => void) {
    this.#ms = ms;
    this.#onSilence = onSilence;
    this.#quiet = setTimeout(() => {
      this.#silence ??= setTimeout(() => this.#endSilence(), this.#ms / 2);
      ping();
    }, ms);
  }

  /** Call this when a packet was sent. */
  sent(): void {
    this.#quiet.refresh();
  }

  /** Call this when bytes arrived. */
  heard(): void {
    clearTimeout(this.#silence);
    this.#silence = undefined;
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#quiet);
    this.heard();
  }

  #endSilence(): void {
    this.#silence = undefined;
    this.#onSilence();
  }
}
