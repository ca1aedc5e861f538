import { join } from 'node:path';

import type { LoadedConfig } from '../../config/load-config.ts';
import type { OperationEvent } from '../../control/events.ts';
import { startControlServer } from '../../control/server/control-server.ts';
import { OperationRunner } from '../../control/server/operation-runner.ts';
import { AgentError, describeError } from '../../system/errors.ts';
import { acquireLock } from '../../system/files/lock.ts';
import type { ServiceManager } from '../../system/processes/systemd-notify.ts';
import { Agent } from '../agent.ts';
import { StateWatch } from '../doctor/state-directory.ts';
import { describeLook, describeOutcome } from '../status-report.ts';
import { TelemetryHost } from '../wiring/telemetry-host.ts';
import { wire } from '../wiring/wiring.ts';
import type { Wiring, World } from '../wiring/wiring.ts';
import { Liveness } from './liveness.ts';
import { feedWatchdog } from './own-socket.ts';
import { settleOnce, updateOnce } from './rounds.ts';
import { cronSchedule, sleepUntil, splayOffsetMs } from './schedule.ts';
import type { Schedule } from './schedule.ts';
import { SettlePause } from './settle-pause.ts';
import { WakeLimit } from './wake-limit.ts';

export interface DaemonOptions {
  readonly loaded: LoadedConfig;
  /** Reads the configuration again, on SIGHUP. Throws ConfigError. */
  readonly reload: () => Promise<LoadedConfig>;
  readonly world: World;
  readonly manager: ServiceManager;
  /** Calls back on each SIGHUP until it is disposed. */
  readonly onReload: (listener: () => void) => Disposable;
}

/** After a reboot was asked for: if the machine still runs then, the round is made again. */
const REBOOT_PATIENCE_MS = 5 * 60_000;
/** The first look does not wait for the schedule, but not all gateways of a fleet look at once after a blackout. */
const MAX_FIRST_SPLAY_MS = 60_000;
/** Longer than any deadline of a single wait inside an operation, but for the health gate's, which is added. */
const LONGEST_SILENCE_MS = 20 * 60_000;

/** The long-running process: settles, follows the service, answers on the control socket; until the signal is aborted. */
export async function runDaemon(options: DaemonOptions, signal: AbortSignal): Promise<void> {
  const daemon = new Daemon(options, signal);
  await daemon.run();
}

class Daemon {
  readonly #options: DaemonOptions;
  readonly #signal: AbortSignal;
  readonly #runner: OperationRunner;
  readonly #liveness: Liveness;
  readonly #telemetry: TelemetryHost;
  #loaded: LoadedConfig;
  #wiring: Wiring | undefined;
  #schedule: Schedule = () => Number.POSITIVE_INFINITY;
  #nextLookAtMs: number | undefined;
  #reloadProblem: string | undefined;
  readonly #settlePause = new SettlePause();
  readonly #stateWatch: StateWatch;
  readonly #wakes = new WakeLimit();
  /** Of a look that a message asked for; infinity: of none. */
  #wakeDueMs = Number.POSITIVE_INFINITY;
  /** Ends the current nap: there is something to do now. */
  #alarm = new AbortController();
  /** Ends the current nap if it lasts longer than it should by now. */
  #call = new AbortController();
  #reloadAsked = false;

  constructor(options: DaemonOptions, signal: AbortSignal) {
    const { clock } = options.world;
    this.#options = options;
    this.#signal = signal;
    this.#loaded = options.loaded;
    this.#stateWatch = new StateWatch(options.world.log);
    this.#runner = new OperationRunner(clock, signal, {
      onEvent: (event) => this.#follow(event),
      onEnd: (outcome) => options.world.log.info({ outcome: outcome.kind }, describeOutcome(outcome)),
      onFailure: (error) => this.#noteFailure(error),
    });
    this.#telemetry = new TelemetryHost(clock, () => this.#runner.running !== undefined);
    this.#liveness = new Liveness(clock, LONGEST_SILENCE_MS + options.loaded.config.update.health.deadlineMs);
  }

  async run(): Promise<void> {
    const { world, manager, onReload } = this.#options;
    const { paths } = this.#loaded.config;
    await using opened = new AsyncDisposableStack();
    opened.use(manager);
    opened.use(await acquireLock(join(paths.run, 'agent.lock'), 'daemon', this.#signal));
    opened.defer(async () => this.#wiring?.[Symbol.asyncDispose]());
    opened.use(this.#telemetry);
    await this.#wire(this.#loaded);
    opened.use(this.#runner);
    const agent = new Agent({
      wiring: () => this.#currentWiring,
      telemetry: () => this.#telemetry.current,
      daemon: true,
      nextLookAtMs: () => this.#dueMs,
      warnings: () => this.#warnings,
      activity: () => this.#runner.activity,
    });
    const runDirectory = paths.run;
    const memberProperties = (): readonly string[] => this.#loaded.config.control.properties;
    const performer = { operations: agent, runner: this.#runner };
    opened.use(
      await startControlServer({ runDirectory, memberProperties, ...performer, log: world.log }, this.#signal),
    );
    opened.use(onReload(() => this.#askForReload()));
    opened.use(feedWatchdog({ manager, clock: world.clock, runDirectory, isAlive: () => this.#liveness.isAlive }));
    opened.defer(() => manager.stopping());
    for (const warning of this.#warnings) world.log.warn({}, warning);
    manager.ready();
    world.log.info({ version: world.agentVersion, serialNumber: this.#currentWiring.serialNumber }, 'the agent is up');
    await this.#loop();
  }

  /** What was left half done comes at once; then round after round, until the signal ends it. */
  async #loop(): Promise<void> {
    let pauseMs = await this.#round('settle');
    while (!this.#signal.aborted) {
      await this.#nap(pauseMs);
      if (this.#signal.aborted) return;
      if (this.#reloadAsked) await this.#reload();
      pauseMs = await this.#round('update');
    }
  }

  /** Returns how long to wait before the next; infinity: until the next look. */
  async #round(what: 'settle' | 'update'): Promise<number> {
    const { clock } = this.#options.world;
    const wiring = this.#currentWiring;
    if (this.#wakeDueMs <= clock.nowMs()) this.#wakeDueMs = Number.POSITIVE_INFINITY;
    try {
      const outcome = await this.#runner.run(
        { operation: 'update', reboot: true, force: false },
        async (onEvent, signal) => {
          await this.#stateWatch.look(wiring.config, wiring.journal);
          if (what === 'update') return updateOnce(wiring, onEvent, signal);
          const settled = await settleOnce(wiring, onEvent, signal);
          // Who joined asked for a look.
          const isEnough = settled.kind !== 'up-to-date' || !this.#runner.isFollowed;
          return isEnough ? settled : updateOnce(wiring, onEvent, signal);
        },
        () => {},
        this.#signal,
      );
      this.#settlePause.end();
      if (outcome.kind === 'rebooting') return REBOOT_PATIENCE_MS;
      if (what === 'settle') return Number.POSITIVE_INFINITY;
    } catch (error) {
      if (this.#signal.aborted) return 0;
      if (!(error instanceof AgentError)) throw error;
      const { phase } = wiring.journal.state;
      if (what === 'settle' || (phase.kind !== 'idle' && phase.kind !== 'staging')) return this.#settlePause.nextMs();
    }
    const { updater } = wiring;
    this.#tellStatus(describeLook(updater?.lastLook));
    this.#nextLookAtMs = this.#schedule(clock.nowMs());
    return Number.POSITIVE_INFINITY;
  }

  /** Until something is due, or there is something else to do. */
  async #nap(pauseMs: number): Promise<void> {
    this.#alarm = new AbortController();
    if (this.#reloadAsked) return;
    const awake = AbortSignal.any([this.#signal, this.#alarm.signal]);
    if (pauseMs !== Number.POSITIVE_INFINITY) {
      await this.#sleepUntil(this.#options.world.clock.nowMs() + pauseMs, awake);
      return;
    }
    for (let done = false; !done && !awake.aborted;) {
      this.#call = new AbortController();
      done = await this.#sleepUntil(this.#dueMs, AbortSignal.any([awake, this.#call.signal]));
    }
  }

  /** False: woken before. */
  async #sleepUntil(untilMs: number, awake: AbortSignal): Promise<boolean> {
    const { clock } = this.#options.world;
    this.#liveness.restFor(Math.max(0, untilMs - clock.nowMs()));
    try {
      await sleepUntil(untilMs, clock, awake);
      return true;
    } catch (error) {
      if (!awake.aborted) throw error;
      return false;
    } finally {
      this.#liveness.progress();
    }
  }

  /** When the next look is due: by the schedule, or because a message asked for it. */
  get #dueMs(): number {
    return Math.min(this.#nextLookAtMs ?? 0, this.#wakeDueMs);
  }

  #wake(): void {
    const { clock, log } = this.#options.world;
    const nowMs = clock.nowMs();
    const dueMs = this.#wakes.nextMs(nowMs, this.#loaded.config.update.splayMs);
    if (dueMs === this.#wakeDueMs) return; // however many ask for the same look
    this.#wakeDueMs = dueMs;
    log.info({ dueInMs: Math.round(dueMs - nowMs) }, 'a message asks for a look');
    this.#call.abort();
  }

  #follow(event: OperationEvent): void {
    this.#liveness.progress();
    if (event.kind !== 'phase') return;
    const { phase, detail } = event;
    this.#options.world.log.info({ phase }, detail === undefined ? phase : `${phase}: ${detail}`);
    this.#tellStatus(detail === undefined ? phase : `${phase}: ${detail}`);
  }

  /** A defect ends the daemon, or is told by the control socket. */
  #noteFailure(error: unknown): void {
    if (this.#signal.aborted || !(error instanceof AgentError)) return;
    this.#options.world.log.warn({ code: error.code, advice: error.advice }, `the round failed: ${error.message}`);
  }

  #tellStatus(text: string): void {
    this.#options.manager.status(text);
  }

  #askForReload(): void {
    this.#reloadAsked = true;
    this.#alarm.abort();
  }

  /** Between rounds, so that nothing is pulled from under an operation. A broken configuration changes nothing. */
  async #reload(): Promise<void> {
    const { manager, reload, world } = this.#options;
    this.#reloadAsked = false;
    manager.reloading();
    try {
      await this.#wire(await reload());
      this.#reloadProblem = undefined;
      world.log.info({ path: this.#loaded.path }, 'the configuration was read again');
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
      this.#reloadProblem = `the configuration in use is an older one: ${describeError(error)}`;
      world.log.error({ code: error.code }, this.#reloadProblem);
    }
    manager.ready();
    if (this.#reloadProblem !== undefined) this.#tellStatus(this.#reloadProblem);
  }

  async #wire(loaded: LoadedConfig): Promise<void> {
    const { world } = this.#options;
    const { config } = loaded;
    const old = this.#wiring;
    const wiring = await wire(config, this.#telemetry.around(world), old, this.#signal);
    wiring.messaging?.attend({ onWake: () => this.#wake(), onProgress: () => this.#liveness.progress() });
    try {
      this.#schedule = await cronSchedule(config.update.schedule, config.update.splayMs, wiring.serialNumber);
    } catch (error) {
      await wiring[Symbol.asyncDispose]();
      throw error;
    }
    this.#wiring = wiring;
    this.#loaded = loaded;
    await this.#telemetry.serve(wiring);
    if (old !== undefined) {
      await this.#runner.idle();
      await old[Symbol.asyncDispose]();
    }
    wiring.messaging?.connect();
    const firstMs = Math.min(splayOffsetMs(wiring.serialNumber, config.update.splayMs), MAX_FIRST_SPLAY_MS);
    this.#nextLookAtMs ??= world.clock.nowMs() + firstMs;
  }

  get #currentWiring(): Wiring {
    if (this.#wiring === undefined) throw new Error('the daemon is not wired yet');
    return this.#wiring;
  }

  get #warnings(): readonly string[] {
    const warnings = this.#loaded.warnings.map(({ message }) => message);
    return this.#reloadProblem === undefined ? warnings : [...warnings, this.#reloadProblem];
  }
}
