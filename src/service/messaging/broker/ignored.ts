/** The kinds of messages that answered none of our requests. */
const ignoredKinds = [
  /** A reply with an id that we never used: another device's, or a forged one. */
  'unknown',
  /** A second reply to a request that was answered. */
  'duplicate',
  /** A reply to a request that no caller waits for. */
  'late',
  /** A message that the broker had kept, so that it may be of any age. */
  'retained',
  /** A request, ours or another device's, where requests and replies share a topic. */
  'request',
  /** Its correlation data differs from the request whose id it names. */
  'mismatched',
  /** No reply that can be read, and it does not tell whose it would be. */
  'unreadable',
  /** Larger than any requested reply. */
  'unwanted',
] as const;

export type IgnoredKind = (typeof ignoredKinds)[number];

/** The number of ignored messages of each kind since the start. */
export type IgnoredCounts = Readonly<Record<IgnoredKind, number>>;

const maxRemembered = 256;

/** Counts ignored messages. Remembers the last requests, to tell late replies from forged ones. */
export class IgnoredMessages {
  readonly #counts = new Map<IgnoredKind, number>();
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
    this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + 1);
  }

  /** Counts a reply with an id that no caller waits for. */
  countReply(id: string): void {
    this.count(this.#finished.get(id) ?? 'unknown');
  }

  get counts(): IgnoredCounts {
    const of = (kind: IgnoredKind): number => this.#counts.get(kind) ?? 0;
    return {
      unknown: of('unknown'),
      duplicate: of('duplicate'),
      late: of('late'),
      retained: of('retained'),
      request: of('request'),
      mismatched: of('mismatched'),
      unreadable: of('unreadable'),
      unwanted: of('unwanted'),
    };
  }
}
