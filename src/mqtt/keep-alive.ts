/**
 * MQTT 5.0, section 3.1.2.10: the broker hears from us within the keep-alive time. One of which nothing comes for half of it after a
 * ping is silent; while a large message comes it cannot answer, and its bytes are sign of life enough.
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

  /** A packet went out. */
  sent(): void {
    this.#quiet.refresh();
  }

  /** Bytes came. */
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
