import type { AgentError } from '../../system/errors.ts';
import type { EventOf, EventType, StateAfter } from './events.ts';
import type { Journal } from './journal.ts';
import { initialState } from './state.ts';
import type { UpdateState } from './state.ts';
import { advance } from './transitions.ts';

/** A journal in memory, for tests and for commands that must not write to the disk. */
export class MemoryJournal implements Journal {
  #state: UpdateState;

  constructor(state: UpdateState = initialState) {
    this.#state = state;
  }

  get state(): UpdateState {
    return this.#state;
  }

  get missing(): AgentError | undefined {
    return undefined;
  }

  get trouble(): AgentError | undefined {
    return undefined;
  }

  async refresh(): Promise<void> {}

  async probe(): Promise<void> {}

  async append<T extends EventType>(event: EventOf<T>): Promise<StateAfter<T>> {
    const next = advance(this.#state, event);
    this.#state = next;
    return next;
  }
}
