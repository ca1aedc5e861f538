/** Values by name, made when they are first needed. Above the limit, forgets the least recently used value. */
export class RecentMap<T> {
  readonly #values = new Map<string, T>();
  readonly #limit: number;
  readonly #make: () => T;
  readonly #onForget: (name: string, value: T) => void;

  constructor(limit: number, make: () => T, onForget: (name: string, value: T) => void = () => {}) {
    this.#limit = limit;
    this.#make = make;
    this.#onForget = onForget;
  }

  get(name: string): T {
    const value = this.#values.get(name) ?? this.#make();
    this.#values.delete(name);
    this.#values.set(name, value);
    for (const [oldest, forgotten] of this.#values) {
      if (this.#values.size <= this.#limit) break;
      this.#values.delete(oldest);
      this.#onForget(oldest, forgotten);
    }
    return value;
  }

  [Symbol.iterator](): MapIterator<[string, T]> {
    return this.#values[Symbol.iterator]();
  }
}
