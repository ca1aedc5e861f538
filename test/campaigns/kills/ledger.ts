import type { StandIn } from '../../fakes/service/stand-in.ts';

interface End {
  readonly attempt: string;
  readonly version: string;
  readonly outcome: string;
  readonly code: string;
}

/** Attempts that were seen to begin, and their results as reported to the service. */
export class Ledger {
  readonly #service: StandIn;
  readonly #begun = new Set<string>();

  constructor(service: StandIn) {
    this.#service = service;
  }

  note(attempt: string | undefined): void {
    if (attempt !== undefined) this.#begun.add(attempt);
  }

  /** Ranges requested from an image, in order; `all` without a range. */
  get firmwareCalls(): readonly string[] {
    return this.#service.callsOf('firmware').map(({ headers }) => headers['range'] ?? 'all');
  }

  /** In the order in which they arrived; the same end may arrive again. */
  get ends(): readonly End[] {
    const accepted = this.#service.callsOf('setProperty').filter(({ status }) => status === 204);
    return accepted.filter(({ path }) => path.includes('/update_outcome/')).map(({ body }) => JSON.parse(body) as End);
  }

  /** Attempts with two different reported results. */
  get contradictions(): readonly string[] {
    const texts = new Map<string, string>();
    const found: string[] = [];
    for (const end of this.ends) {
      const text = JSON.stringify(end);
      const known = texts.get(end.attempt);
      if (known !== undefined && known !== text) found.push(`the service heard ${known} and then ${text}`);
      texts.set(end.attempt, text);
    }
    return found;
  }

  /** Begun, and no end was heard. */
  get unheard(): readonly string[] {
    const heard = new Set(this.ends.map(({ attempt }) => attempt));
    return [...this.#begun].filter((attempt) => !heard.has(attempt));
  }
}
