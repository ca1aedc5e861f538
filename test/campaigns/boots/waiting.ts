/** Waits for conditions. A change wakes the waiting tests. */
export class Waiting {
  readonly #looks = new Set<() => void>();

  wake(): void {
    for (const look of this.#looks) look();
  }

  /** True if the condition held in time. */
  async until(condition: () => boolean, deadlineMs: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const look = (): void => {
      if (condition()) resolve(true);
    };
    const timer = setTimeout(() => resolve(false), deadlineMs);
    this.#looks.add(look);
    look();
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#looks.delete(look);
    }
  }
}
