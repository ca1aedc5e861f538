import { TelemetryError } from '../errors.ts';
import type { AcknowledgedBy } from './acknowledgement.ts';

const MAX_PROPERTIES = 10_000;

interface Waiting {
  readonly text: string;
  readonly revision: number;
  isStored: boolean;
  /** Settled when the value is safe, for those who wait for that. */
  readonly safe: PromiseWithResolvers<AcknowledgedBy>;
}

export interface QueuedProperty {
  readonly id: string;
  /** JSON. */
  readonly text: string;
  readonly revision: number;
}

/** Property values that the service has not accepted yet: the last value of each property. */
export class PropertyQueue {
  readonly #waiting = new Map<string, Waiting>();
  /** Properties with a row on the disk. The values of some of them are settled already. */
  #onDisk = new Set<string>();
  #revision = 0;

  get size(): number {
    return this.#waiting.size;
  }

  /** Whether there is something to write to the disk, or to remove from it. */
  get isDirty(): boolean {
    return this.settled().length > 0 || this.#waiting.values().some(({ isStored }) => !isStored);
  }

  /** Takes over what a newly opened database holds. */
  adopt(stored: ReadonlyMap<string, string>): void {
    const before = this.#onDisk;
    this.#onDisk = new Set(stored.keys());
    for (const waiting of this.#waiting.values()) waiting.isStored = false;
    for (const [id, text] of stored) {
      if (this.#waiting.has(id) || before.has(id)) continue;
      this.#revision += 1;
      this.#waiting.set(id, {
        text,
        revision: this.#revision,
        isStored: true,
        safe: Promise.withResolvers<AcknowledgedBy>(),
      });
    }
  }

  set(id: string, text: string): QueuedProperty {
    if (!this.#waiting.has(id) && this.#waiting.size >= MAX_PROPERTIES) {
      throw new TelemetryError('too-many-names', `no more than ${MAX_PROPERTIES} properties wait at once`);
    }
    this.#revision += 1;
    const revision = this.#revision;
    const safe = this.#waiting.get(id)?.safe ?? Promise.withResolvers<AcknowledgedBy>();
    this.#waiting.delete(id);
    this.#waiting.set(id, { text, revision, isStored: false, safe });
    return { id, text, revision };
  }

  /** The oldest value. */
  next(skip: ReadonlySet<string>): QueuedProperty | undefined {
    for (const [id, { text, revision }] of this.#waiting) if (!skip.has(id)) return { id, text, revision };
    return undefined;
  }

  /** Settles a value that the service has, or will never accept. A newer value of the property stays. */
  settle({ id, revision }: QueuedProperty): void {
    const waiting = this.#waiting.get(id);
    if (waiting?.revision !== revision) return;
    this.#waiting.delete(id);
    waiting.safe.resolve('service');
  }

  /** Resolves when this value, or a newer one, is on disk or at the service. */
  async safe({ id, revision }: QueuedProperty): Promise<AcknowledgedBy> {
    const waiting = this.#waiting.get(id);
    if (waiting === undefined || waiting.revision < revision) return 'service';
    return waiting.isStored ? 'disk' : waiting.safe.promise;
  }

  unwritten(): readonly { readonly id: string; readonly text: string }[] {
    return [...this.#waiting].flatMap(([id, { text, isStored }]) => (isStored ? [] : [{ id, text }]));
  }

  settled(): readonly string[] {
    return [...this.#onDisk].filter((id) => !this.#waiting.has(id));
  }

  written(): void {
    for (const waiting of this.#waiting.values()) {
      waiting.isStored = true;
      waiting.safe.resolve('disk');
    }
    this.#onDisk = new Set(this.#waiting.keys());
  }
}
