import type { Clock } from '../system/time/clock.ts';
import type { TelemetrySettings } from './settings.ts';

/** The agent's knowledge about the gateway. */
export interface SelfFacts {
  readonly installed: string | undefined;
  readonly slot: string | undefined;
  readonly outcome: string | undefined;
  readonly reason: string | undefined;
  /** In seconds. */
  readonly uptime: number;
}

export interface SelfReportDeps {
  readonly settings: TelemetrySettings['report'];
  readonly facts: () => SelfFacts;
  readonly figures: () => unknown;
  readonly publish: (id: string, value: unknown) => void;
  readonly clock: Clock;
}

/** Publishes what the agent knows about itself when it changes, under the ids that the configuration names. */
export class SelfReport {
  readonly #deps: SelfReportDeps;
  readonly #published = new Map<string, string>();

  constructor(deps: SelfReportDeps) {
    this.#deps = deps;
  }

  /** Publishes until the signal is aborted. Without any id, it returns immediately. */
  async run(signal: AbortSignal): Promise<void> {
    const { settings, clock } = this.#deps;
    const { everyMs: _, ...ids } = settings;
    if (Object.values(ids).every((id) => id === undefined)) return;
    while (!signal.aborted) {
      this.publishChanges();
      await clock.sleep(settings.everyMs, signal);
    }
  }

  publishChanges(): void {
    const { settings, facts, figures } = this.#deps;
    const values = facts();
    for (const name of ['installed', 'slot', 'outcome', 'reason', 'uptime'] as const) {
      this.#publish(settings[name], values[name]);
    }
    if (settings.figures !== undefined) this.#publish(settings.figures, figures());
  }

  #publish(id: string | undefined, value: unknown): void {
    if (id === undefined || value === undefined) return;
    const text = JSON.stringify(value);
    if (this.#published.get(id) === text) return;
    this.#published.set(id, text);
    this.#deps.publish(id, value);
  }
}
