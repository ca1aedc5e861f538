import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';

import type { LoadedConfig } from '../../config/load-config.ts';
import type { OperationEvent, OperationOutcome } from '../../control/events.ts';
import { describeOutcome } from '../../control/presentation/outcome.ts';
import { phaseTitles } from '../../control/presentation/phases.ts';
import type { SecurityEventId } from '../../control/security/security-event-meanings.ts';
import { OperationRunner } from '../../control/server/operation-runner.ts';
import type { OperationWork } from '../../control/server/operation-runner.ts';
import { AgentError, describeError } from '../../system/errors.ts';
import { acquireLock, DAEMON } from '../../system/files/lock.ts';
import type { ServiceManager } from '../../system/processes/systemd-notify.ts';
import { longestHealthMs } from '../../update/trial/health.ts';
import { createAgent } from '../agent.ts';
import type { AgentDeps } from '../agent.ts';
import { refuseTimeZone } from '../doctor/local-time.ts';
import { checkLoadedConfig } from '../doctor/preconditions.ts';
import type { ConfigStatus } from '../doctor/preconditions.ts';
import { StateMonitor } from '../doctor/state-directory.ts';
import { DaemonError } from '../errors.ts';
import { recordTrustChanges } from '../security/record-events.ts';
import { describeCheck } from '../status/check-report.ts';
import { TelemetryHost } from '../wiring/telemetry-host.ts';
import { refuseOtherSerialNumber, wire } from '../wiring/wiring.ts';
import type { Wiring, Runtime } from '../wiring/wiring.ts';
import { isHalfDone, rejectEmptyRollback, runRecovery, runUpdateCycle } from './rounds.ts';
import type { CycleResult } from './scheduler.ts';
import { startServers } from './servers.ts';
import type { PageHost, ServerDeps } from './servers.ts';
import { Liveness, TaskTimer } from './task-timer.ts';
import { feedWatchdog } from './watchdog.ts';

export interface DaemonDeps {
  readonly loaded: LoadedConfig;
  /** Reads the configuration again on SIGHUP. Throws ConfigError. */
  readonly reload: () => Promise<LoadedConfig>;
  readonly world: Runtime;
  readonly manager: ServiceManager;
  /** Calls the listener on each SIGHUP until it is disposed. */
  readonly onReload: (listener: () => void) => Disposable;
  /** True if the files of this program are gone: another version is installed. Default: false. */
  readonly isReplaced?: () => boolean;
}

/** Longer than any single wait within an operation, except for the health gate, whose deadline is added. */
const LONGEST_SILENCE_MS = 20 * 60_000;

/** A recovery that found nothing to do has not asked the service whether the gateway is up to date. */
function codeOf(outcome: OperationOutcome): string {
  return outcome.kind === 'up-to-date' && outcome.isRecovery === true ? 'recovered' : outcome.kind;
}

/** Settles, follows the service, and answers on the control socket until the signal is aborted. */
export class Daemon {
  readonly #deps: DaemonDeps;
  readonly #signal: AbortSignal;
  readonly #runner: OperationRunner;
  readonly #liveness: Liveness;
  readonly #alarmClock: TaskTimer;
  readonly #telemetry: TelemetryHost;
  #page: PageHost | undefined;
  #loaded: LoadedConfig;
  #wiring: Wiring | undefined;
  #reloadProblem: string | undefined;
  /** The running cycle of the daemon's own; without one, operations are a client's. */
  #cycle: 'recovery' | 'check' | undefined;
  readonly #stateWatch: StateMonitor;
  readonly #replaced = new AbortController();

  constructor(deps: DaemonDeps, signal: AbortSignal) {
    const { clock } = deps.world;
    this.#deps = deps;
    this.#signal = signal;
    this.#loaded = deps.loaded;
    this.#stateWatch = new StateMonitor(deps.world.log);
    this.#runner = new OperationRunner(clock, signal, {
      onEvent: (event) => this.#follow(event),
      onEnd: (outcome) => this.#noteEnd(outcome),
      onFailure: (error) => this.#noteFailure(error),
    });
    this.#telemetry = new TelemetryHost(clock, () => this.#runner.running !== undefined);
    this.#liveness = new Liveness(clock, LONGEST_SILENCE_MS + longestHealthMs(deps.loaded.config.update.health));
    this.#alarmClock = new TaskTimer({ clock, log: deps.world.log, liveness: this.#liveness });
  }

  /** Starts, and runs each cycle when it is due. */
  async run(): Promise<void> {
    await using opened = new AsyncDisposableStack();
    await this.#start(opened);
    const ending = AbortSignal.any([this.#signal, this.#replaced.signal]);
    for (;;) {
      const what = await this.#alarmClock.due(ending);
      if (what === undefined) return;
      if (what === 'reload') await this.#reload();
      else await this.#runCycle(what);
    }
  }

  async #start(opened: AsyncDisposableStack): Promise<void> {
    const { world, manager, onReload } = this.#deps;
    const { paths } = this.#loaded.config;
    opened.use(manager);
    await refuseTimeZone(world, this.#signal);
    opened.use(await acquireLock(join(paths.run, 'agent.lock'), DAEMON, this.#signal));
    opened.defer(async () => this.#wiring?.[Symbol.asyncDispose]());
    opened.use(this.#telemetry);
    await this.#wire(this.#loaded);
    opened.use(this.#runner);
    const agent = createAgent({
      wiring: () => this.#currentWiring,
      telemetry: () => this.#telemetry.current,
      daemon: true,
      looks: () => this.#alarmClock.agenda.looks,
      warnings: () => this.#warnings,
      readAgain: this.#readAgain,
      activity: () => this.#runner.activity,
      alone: this.#alone,
    });
    const runDirectory = paths.run;
    const outside: ServerDeps = {
      operations: agent,
      runner: this.#runner,
      refuse: async (request, ending) => {
        if (this.#exitIfReplaced())
          throw new DaemonError('agent-replaced', 'the program was replaced beneath this daemon');
        await rejectEmptyRollback(request, this.#currentWiring, ending);
      },
      world,
      loaded: () => this.#loaded,
      record: this.#record,
    };
    this.#page = await startServers(outside, opened, this.#signal);
    opened.use(onReload(() => this.#alarmClock.askForReload()));
    opened.defer(() => manager.stopping());
    for (const warning of this.#warnings) world.log.warn({}, warning);
    manager.ready(); // waits here, since each message is sent by a program, one after the other
    this.#telemetry.start();
    const isAlive = (): boolean => this.#liveness.isAlive;
    const onTurn = (): void => void this.#exitIfReplaced();
    opened.use(feedWatchdog({ manager, clock: world.clock, runDirectory, isAlive, onTurn }));
    const { serialNumber } = this.#currentWiring;
    world.log.info({ version: world.agentVersion, config: this.#loaded.path, serialNumber }, 'agent started');
  }

  /**
   * Ends this daemon between two operations if its files are gone, so that the service manager starts the installed
   * version. Returns true if it ends. Without this, a daemon whose dpkg was killed before the restart could not install
   * anything, since it loads parts of itself on first use.
   */
  #exitIfReplaced(): boolean {
    if (this.#replaced.signal.aborted) return true;
    if (this.#runner.running !== undefined || this.#deps.isReplaced?.() !== true) return false;
    this.#deps.world.log.warn(
      {},
      'the program was replaced beneath this daemon, which ends, so that the new one starts',
    );
    this.#replaced.abort();
    return true;
  }

  async #runCycle(what: 'recover' | 'check'): Promise<void> {
    const wiring = this.#currentWiring;
    this.#alarmClock.agenda.beginRound(this.#deps.world.clock.nowMs(), what);
    this.#cycle = what === 'check' ? 'check' : 'recovery';
    try {
      const request = { operation: 'update', reboot: true, force: false } as const;
      const { kind } = await this.#runner.run(request, this.#workOf(what, wiring), () => {}, this.#signal);
      await this.#plan(kind === 'rebooting' ? kind : what === 'recover' ? 'settled' : 'looked', wiring);
    } catch (error) {
      if (this.#signal.aborted) return;
      if (!(error instanceof AgentError)) throw error;
      const { phase } = wiring.journal.state;
      const isSettled = what === 'check' && (phase.kind === 'idle' || phase.kind === 'staging');
      await this.#plan(isSettled ? 'failed' : 'unsettled', wiring);
    } finally {
      this.#cycle = undefined;
    }
  }

  /** Plans another cycle soon if a client's operation left something half done. */
  async #retryHalfDone(): Promise<void> {
    if (this.#cycle === undefined && (await isHalfDone(this.#currentWiring))) this.#alarmClock.retrySoon();
  }

  async #plan(end: CycleResult, wiring: Wiring): Promise<void> {
    if (end === 'looked' || end === 'failed') this.#deps.manager.status(describeCheck(wiring.updater?.lastLook));
    await this.#alarmClock.endCycle(end, wiring);
  }

  #workOf(what: 'recover' | 'check', wiring: Wiring): OperationWork {
    return async (onEvent, signal) => {
      await this.#stateWatch.check(wiring.config, wiring.journal);
      if (what === 'check') return runUpdateCycle(wiring, onEvent, signal);
      const settled = await runRecovery(wiring, onEvent, signal);
      // A client that joined this cycle requested a check.
      const isEnough = settled.kind !== 'up-to-date' || !this.#runner.isFollowed;
      return isEnough ? settled : runUpdateCycle(wiring, onEvent, signal);
    };
  }

  /** Runs work alone. It counts as a forced update, so that it does not join a round that waits for a window. */
  readonly #alone: NonNullable<AgentDeps['alone']> = async (work, signal) => {
    const request = { operation: 'update', reboot: true, force: true } as const;
    return this.#runner.run(
      request,
      async (_onEvent, inner) => work(inner),
      () => {},
      signal,
    );
  };

  readonly #readAgain = async (): Promise<ConfigStatus> => {
    const { path, digest, config } = await this.#deps.reload();
    if (digest === this.#loaded.digest) return { path, change: 'none' };
    const isSamePlace = isDeepStrictEqual(config.paths, this.#loaded.config.paths);
    return { path, change: isSamePlace ? 'reload' : 'restart' };
  };

  readonly #record = (id: SecurityEventId, detail: string): void =>
    void this.#currentWiring.security.record(id, detail);

  #follow(event: OperationEvent): void {
    this.#liveness.progress();
    if (event.kind !== 'phase') return;
    const { phase, detail } = event;
    const text = `${phaseTitles[phase]}${detail === undefined ? '' : `: ${detail}`}`;
    this.#deps.world.log.info({ phase }, text);
    this.#deps.manager.status(text);
  }

  #noteEnd(outcome: OperationOutcome): void {
    this.#deps.world.log.info({ outcome: codeOf(outcome) }, describeOutcome(outcome, true).text);
    if (outcome.kind !== 'rebooting') void this.#retryHalfDone();
  }

  /** Logs the failure of a round. A defect is not logged here: it ends the daemon, or the control socket reports it. */
  #noteFailure(error: unknown): void {
    if (this.#signal.aborted || !(error instanceof AgentError)) return;
    const what = this.#cycle === undefined ? 'an operation' : `the ${this.#cycle}`;
    this.#deps.world.log.warn({ code: error.code, advice: error.advice }, `${what} failed: ${error.message}`);
    void this.#retryHalfDone();
  }

  /** Reads the configuration again, between rounds, so that no operation loses its wiring. */
  async #reload(): Promise<void> {
    const { manager, reload, world } = this.#deps;
    this.#alarmClock.agenda.beginReload();
    manager.reloading();
    try {
      await this.#wire(await reload());
      await this.#page?.serve(this.#loaded.config.page);
      this.#reloadProblem = undefined;
      world.log.info({ path: this.#loaded.path }, 'the configuration was read again');
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
      this.#reloadProblem = `the configuration in use is an older one: ${describeError(error)}`;
      world.log.error({ code: error.code }, this.#reloadProblem);
    }
    manager.ready();
    if (this.#reloadProblem !== undefined) this.#deps.manager.status(this.#reloadProblem);
  }

  async #wire(loaded: LoadedConfig): Promise<void> {
    const { world } = this.#deps;
    const { config } = loaded;
    const old = this.#wiring;
    const configProblem = async () => (await checkLoadedConfig(this.#readAgain)).trouble;
    const around = { ...this.#telemetry.around(world), configProblem };
    const wiring = await wire(config, around, old, this.#signal);
    wiring.messaging?.attend({ onWake: () => this.#alarmClock.wake(), onProgress: () => this.#liveness.progress() });
    try {
      refuseOtherSerialNumber(old, wiring);
      await this.#alarmClock.follow(config, wiring);
    } catch (error) {
      await wiring[Symbol.asyncDispose]();
      throw error;
    }
    this.#wiring = wiring;
    this.#loaded = loaded;
    await recordTrustChanges(wiring.security, loaded, wiring.trust, this.#signal);
    await this.#telemetry.serve(wiring);
    if (old !== undefined) {
      await this.#runner.idle();
      await old[Symbol.asyncDispose]();
    }
    wiring.messaging?.connect();
  }

  get #currentWiring(): Wiring {
    if (this.#wiring === undefined) throw new Error('the daemon reads its wiring before it exists');
    return this.#wiring;
  }

  get #warnings(): readonly string[] {
    const warnings = this.#loaded.warnings.map(({ message }) => message);
    const problems = this.#reloadProblem === undefined ? [] : [this.#reloadProblem];
    return [...warnings, ...problems, ...(this.#page?.troubles ?? [])];
  }
}
