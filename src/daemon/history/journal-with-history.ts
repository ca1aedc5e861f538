import type { AgentError } from '../../system/errors.ts';
import type { Journal } from '../../update/journal/journal.ts';
import type { EventOf, EventType, StateAfter, UpdateState } from '../../update/journal/state.ts';
import type { History } from './history.ts';

/** A journal that tells its events to the history once they are durable. */
export class JournalWithHistory implements Journal {
  readonly #journal: Journal;
  readonly #history: Pick<History, 'note'>;

  constructor(journal: Journal, history: Pick<History, 'note'>) {
    this.#journal = journal;
    this.#history = history;
  }

  get state(): UpdateState {
    return this.#journal.state;
  }

  get missing(): AgentError | undefined {
    return this.#journal.missing;
  }

  get trouble(): AgentError | undefined {
    return this.#journal.trouble;
  }

  async refresh(): Promise<void> {
    return this.#journal.refresh();
  }

  async probe(roomBytes?: number): Promise<void> {
    return this.#journal.probe(roomBytes);
  }

  async append<T extends EventType>(event: EventOf<T>): Promise<StateAfter<T>> {
    const before = this.#journal.state;
    const after = await this.#journal.append(event);
    await this.#history.note({ event, before, after });
    return after;
  }
}
