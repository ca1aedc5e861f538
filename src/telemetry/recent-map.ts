/** Values by name, made when they are first needed. Above the limit, forgets the least recently used value. */
export class RecentMap<T> {
  readonly #values = new Map<string, T>();
  readonly #limit: number;
  readonly #make: () => T;

  constructor(limit: number, make: () => T) {
    this.#limit = limit;
    this.#make = make;
  }

  get(name: string): T {
    const value = this.#values.get(name) ?? this.#make();
    this.#values.delete(name);
    this.#values.set(name, value);
    const [oldest = name] = this.#values.keys();
    if (this.#values.size > this.#limit) this.#values.delete(oldest);
    return value;
  }
}
