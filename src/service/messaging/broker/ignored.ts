/** The number of ignored messages of each kind: they answered none of our requests. */
const none = {
  /** A reply with an id that we never used: another device's, or a forged one. */
  unknown: 0,
  /** A second reply to a request that was answered. */
  duplicate: 0,
  /** A reply to a request that no caller waits for. */
  late: 0,
  /** A message that the broker had kept, so that it may be of any age. */
  retained: 0,
  /** A request, ours or another device's, where requests and replies share a topic. */
  request: 0,
  /** Its correlation data differs from the request whose id it names. */
  mismatched: 0,
  /** No reply that can be read, and it does not tell whose it would be. */
  unreadable: 0,
  /** Larger than any requested reply. */
  unwanted: 0,
};

type IgnoredKind = keyof typeof none;

export type IgnoredCounts = Readonly<typeof none>;

const maxRemembered = 256;

/** Counts ignored messages. Remembers the last requests, to tell late replies from forged ones. */
export class IgnoredMessages {
  readonly #counts = { ...none };
  /** Oldest first. */
  readonly #finished = new Map<string, 'duplicate' | 'late'>();

  /** Notes that a request has ended. Later messages with its id are ignored as duplicate or late. */
  finish(id: string, how: 'answered' | 'given-up'): void {
    this.#finished.set(id, how === 'answered' ? 'duplicate' : 'late');
    for (const oldest of this.#finished.keys()) {
      if (this.#finished.size <= maxRemembered) return;
      this.#finished.delete(oldest);
    }
  }

  count(kind: IgnoredKind): void {
    this.#counts[kind] += 1;
  }

  /** Counts a reply with an id that no caller waits for. */
  countReply(id: string): void {
    this.count(this.#finished.get(id) ?? 'unknown');
  }

  get counts(): IgnoredCounts {
    return { ...this.#counts };
  }
}
