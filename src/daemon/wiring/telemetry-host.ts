import assert from 'node:assert';
import { randomUUID } from 'node:crypto';
import { uptime } from 'node:os';
import { isDeepStrictEqual } from 'node:util';

import { SharedPorts } from '../../serial/shared-ports.ts';
import { abortable } from '../../system/abortable.ts';
import { AgentError, describeError, valueOrError } from '../../system/errors.ts';
import type { Log } from '../../system/log/log.ts';
import type { Clock } from '../../system/time/clock.ts';
import { probeSynchronization } from '../../telemetry/clock/clock.ts';
import type { ServiceTime } from '../../telemetry/clock/clock.ts';
import type { ValueService } from '../../telemetry/ports.ts';
import type { SelfFacts } from '../../telemetry/self-report.ts';
import { Telemetry } from '../../telemetry/telemetry.ts';
import type { TelemetryDeps } from '../../telemetry/telemetry.ts';
import type { Journal } from '../../update/journal/journal.ts';
import type { Machine } from '../../update/ports.ts';
import type { Wiring, Runtime } from './wiring.ts';

type TelemetryConfig = Pick<TelemetryDeps, 'settings' | 'measurements' | 'watches' | 'stateDirectory'>;

const MAX_EVENTS_TOLD = 16;
const TELLING_MS = 60_000;

/**
 * Runs the telemetry of the present configuration. A reload that changes none of its settings keeps it: sources would
 * read retained messages again, and deadbands would send again. There is only one queue, so the old telemetry ends
 * before the new one begins.
 */
export class TelemetryHost implements AsyncDisposable {
  readonly #clock: Clock;
  readonly #isBusy: () => boolean;
  readonly #ports: SharedPorts;
  readonly #ready = Promise.withResolvers<void>();
  #serviceTime: ServiceTime | undefined;
  #current: Telemetry | undefined;
  /** The settings of the current telemetry. */
  #served: readonly unknown[] | undefined;
  #wiring: Pick<Wiring, 'config' | 'security' | 'session'> | undefined;
  /** The service of the present configuration. */
  readonly #service: ValueService = {
    postDatapoints: async (...call) => this.#session.postDatapoints(...call),
    setProperty: async (...call) => this.#session.setProperty(...call),
    property: async (...call) => this.#session.property(...call),
    requestTime: async (...call) => this.#session.requestTime(...call),
  };

  /** `isBusy`: an operation runs, so telemetry leaves the service and the ports of boards to it. */
  constructor(clock: Clock, isBusy: () => boolean) {
    this.#clock = clock;
    this.#isBusy = isBusy;
    this.#ports = new SharedPorts({ clock, isBusy });
  }

  /** Shares serial ports and the service's time between telemetry and the rest of the daemon. */
  around(world: Runtime): Runtime {
    return {
      ...world,
      openPort: this.#ports.openForBoard,
      onServiceTime: (atMs) => this.#hear(atMs),
      onActivated: () => this.#current?.tryAgain(),
      onSecurityEvent: () => void this.#tellSecurity(world.log),
    };
  }

  /** The daemon is ready. Until then no program is started for the clock, which would delay that. */
  start(): void {
    this.#ready.resolve();
  }

  get current(): Telemetry | undefined {
    return this.#current;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#current?.[Symbol.asyncDispose]();
    this.#current = undefined;
  }

  async serve(wiring: Wiring): Promise<void> {
    const { telemetry, measurements, watches, paths, service } = wiring.config;
    const settings = { settings: telemetry, measurements, watches, stateDirectory: paths.state };
    this.#wiring = wiring;
    const isSame = isDeepStrictEqual([settings, service], this.#served);
    this.#served = [settings, service]; // another service knows none of the values yet
    if (isSame && this.#current !== undefined) this.#current.tryAgain();
    else await this.#begin(settings, wiring);
    void this.#tellSecurity(wiring.world.log);
  }

  async #begin(settings: TelemetryConfig, { world, machine, journal }: Wiring): Promise<void> {
    await this[Symbol.asyncDispose]();
    const probe = probeSynchronization(world.boot?.timesync);
    this.#current = new Telemetry({
      ...world,
      ...settings,
      service: this.#service,
      boot: { name: await bootName(machine), sinceBootMs },
      probe: async (signal) => {
        await abortable(this.#ready.promise, signal);
        return probe(signal);
      },
      openLine: this.#ports.openForSource,
      isLineTaken: this.#isBusy,
      facts: () => facts(journal),
    });
    if (this.#serviceTime !== undefined) this.#current.hear(this.#serviceTime);
  }

  get #session(): ValueService {
    assert(this.#wiring !== undefined);
    return this.#wiring.session;
  }

  /** Sets the property with the last security events, including those from the time without telemetry. */
  async #tellSecurity(log: Log): Promise<void> {
    const { config, security } = this.#wiring ?? {};
    const property = config?.report.security;
    if (property === undefined || security === undefined) return;
    try {
      const { events, discarded } = await security.report();
      if (events.length === 0) return;
      const value = { count: discarded + events.length, events: events.slice(-MAX_EVENTS_TOLD) };
      await this.#current?.setProperty(property, value, AbortSignal.timeout(TELLING_MS));
    } catch (error) {
      log.warn({ property, error: describeError(error) }, 'the security events could not be handed on');
    }
  }

  #hear(atMs: number): void {
    this.#serviceTime = { atMs, monotonicMs: this.#clock.monotonicMs() };
    this.#current?.hear(this.#serviceTime);
  }
}

/** CLOCK_MONOTONIC, which runs on while the agent restarts (clock_gettime(2)). */
function sinceBootMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}

/** Returns the name of this boot; if it is unknown, every start counts as a boot. */
async function bootName(machine: Pick<Machine, 'bootId'>): Promise<string> {
  const id = await valueOrError(machine.bootId());
  return id instanceof AgentError ? randomUUID() : id;
}

function facts({ state }: Journal): SelfFacts {
  const { installed, lastOutcome } = state;
  return {
    installed: installed?.version.name,
    slot: installed?.slot,
    outcome: lastOutcome?.outcome,
    reason: lastOutcome?.reason,
    uptime: Math.floor(uptime()),
  };
}
