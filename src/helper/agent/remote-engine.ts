import { basename } from 'node:path';

import type { Config } from '../../config/config.ts';
import type { OnEvent, OperationOutcome } from '../../control/events.ts';
import type { InputOf, InstallFlags } from '../../control/operations.ts';
import type { DoctorFinding } from '../../control/reports.ts';
import type { Happened } from '../../daemon/history/tell-history.ts';
import type { UpdateRoom } from '../../daemon/wiring/update-room.ts';
import type { ReadStateText } from '../../firmware/trust/trust-store.ts';
import { AgentError } from '../../system/errors.ts';
import type { Log } from '../../system/log/log.ts';
import type { Clock } from '../../system/time/clock.ts';
import { minuteOfDay } from '../../system/time/daily-window.ts';
import type { Look, LookFlags } from '../../update/choice/lookout.ts';
import { standingPause } from '../../update/hooks/hooks.ts';
import type { HookPause, HookPort } from '../../update/hooks/hooks.ts';
import type { Journal } from '../../update/journal/journal.ts';
import type { Standstill } from '../../update/journal/parts/standstill.ts';
import { initialState } from '../../update/journal/state.ts';
import type { UpdateState } from '../../update/journal/state.ts';
import type { Bootloader, FirmwareSource } from '../../update/ports.ts';
import { findRebootWait } from '../../update/trial/reboot-wait.ts';
import type { RebootWait, Unarmed } from '../../update/trial/reboot-wait.ts';
import { HelperError } from '../errors.ts';
import { fromLinkError } from '../link/link-error.ts';
import { helperVerbs } from '../verbs.ts';
import type { HelperNotes, Settled, Snapshot } from '../verbs.ts';
import { HelperClient } from './helper-client.ts';
import type { AgentPorts } from './port-server.ts';

export interface RemoteEngineDeps {
  readonly path: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly onSecurity: (told: HelperNotes['security']) => void;
  readonly onJournal: (told: Omit<Happened, 'at'>) => void;
  /** How long a person waits for what is only shown. Default: some seconds. */
  readonly glanceMs?: number | undefined;
  /** How long a helper has to take a connection up. Default: what it takes on a slow gateway. */
  readonly attachMs?: number | undefined;
  /** Nothing but showing is wanted, so the first answer is waited for no longer than any other. */
  readonly onlyLooks?: boolean | undefined;
}

/** How long a start waits to hear of the journal. The daemon says within two minutes that it is up. */
const START_MS = 30_000;

/** The engine of updates in the helper, as the agent sees it. It lives as long as the process, also across reloads. */
export class RemoteEngine implements Disposable {
  readonly path: string;
  readonly client: HelperClient;
  readonly journal: Journal;
  readonly #journal: JournalCopy;
  #lastLook: Look | undefined;
  #leftByUpdates: Readonly<Record<string, string>> = {};

  constructor({ onJournal, onlyLooks = false, ...deps }: RemoteEngineDeps) {
    this.path = deps.path;
    this.client = new HelperClient({
      ...deps,
      onSnapshot: (snapshot) => this.#show(snapshot),
      onJournal: ({ event, state }) => {
        const before = this.#journal.state;
        this.#journal.show({ journal: state });
        onJournal({ event, before, after: state });
      },
    });
    this.journal = this.#journal = new JournalCopy(this.client, onlyLooks ? undefined : START_MS);
  }

  get lastLook(): Look | undefined {
    return this.#lastLook;
  }

  /** Of packages, by the names of their targets, after the last order. */
  get leftByUpdates(): Readonly<Record<string, string>> {
    return this.#leftByUpdates;
  }

  [Symbol.dispose](): void {
    this.client[Symbol.dispose]();
  }

  /** The questions to the bootloader that a mere look needs. */
  readonly bootloader: Pick<Bootloader, 'bootedSlot' | 'inspect'> = {
    bootedSlot: async (signal) => (await this.client.glance(helperVerbs.bootState, {}, signal)).booted,
    inspect: async (signal) => (await this.client.glance(helperVerbs.bootState, {}, signal)).state,
  };

  /** What the helper finds takes it long; whether it answers at all does not. */
  async examine(signal: AbortSignal): Promise<readonly DoctorFinding[]> {
    await this.client.glance(helperVerbs.snapshot, {}, signal);
    return (await this.client.ask(helperVerbs.examine, {}, signal)).findings;
  }

  /** Reads the signed lists that the helper has taken. */
  readonly readTrust: ReadStateText = async (path) => {
    const name = helperVerbs.trustFile.input.parse({ name: basename(path) });
    return (await this.client.glance(helperVerbs.trustFile, name)).text;
  };

  #show(snapshot: Snapshot): void {
    this.#journal.show(snapshot);
    this.#lastLook = snapshot.lastLook ?? this.#lastLook;
    this.#leftByUpdates = snapshot.packages ?? this.#leftByUpdates;
  }
}

/** A copy of the journal as the helper sent it last; only the helper can read and write the journal. */
class JournalCopy implements Journal {
  readonly #client: HelperClient;
  readonly #patienceMs: number | undefined;
  #state: UpdateState = { ...initialState, phase: { kind: 'lost' } };
  #missing: AgentError | undefined = new HelperError('helper-unreachable', 'the helper was not asked yet');
  #trouble: AgentError | undefined = this.#missing;

  constructor(client: HelperClient, patienceMs: number | undefined) {
    this.#client = client;
    this.#patienceMs = patienceMs;
  }

  get state(): UpdateState {
    return this.#state;
  }

  get missing(): AgentError | undefined {
    return this.#missing;
  }

  get trouble(): AgentError | undefined {
    return this.#trouble;
  }

  show({ journal, missing, trouble }: Snapshot): void {
    this.#state = journal;
    this.#missing = missing && fromLinkError(missing);
    this.#trouble = trouble && fromLinkError(trouble);
  }

  /** Never fails: `trouble` says why there is no new copy. */
  async refresh(): Promise<void> {
    try {
      this.show(await this.#client.glance(helperVerbs.snapshot, {}, undefined, this.#patienceMs));
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
      this.#trouble = error;
    }
  }

  async probe(): Promise<void> {
    try {
      await this.#client.ask(helperVerbs.probe, {});
      this.#trouble = undefined;
    } catch (error) {
      if (error instanceof AgentError) this.#trouble = error;
      throw error;
    }
  }

  async append(): Promise<never> {
    throw new Error('only the helper writes the journal');
  }
}

export interface RemoteUpdaterDeps {
  readonly engine: RemoteEngine;
  readonly ports: AgentPorts & { readonly hooks: HookPort };
  readonly policy: Pick<Config['update'], 'rebootWindow'>;
  readonly clock: Clock;
}

/** Stands for the `Updater` in the helper. */
export class RemoteUpdater implements UpdateRoom {
  readonly #deps: RemoteUpdaterDeps;

  constructor(deps: RemoteUpdaterDeps) {
    this.#deps = deps;
  }

  get lastLook(): Look | undefined {
    return this.#deps.engine.lastLook;
  }

  get rebootWait(): RebootWait | undefined {
    const { engine, policy, clock } = this.#deps;
    const now = { nowMs: clock.nowMs(), minuteOfDay: minuteOfDay(clock) };
    return findRebootWait(engine.journal.state, policy.rebootWindow, now);
  }

  get hookPause(): HookPause | undefined {
    const { engine, ports } = this.#deps;
    return standingPause(ports.hooks.pause, engine.journal.state);
  }

  get hookTroubles(): readonly string[] {
    const { trouble } = this.#deps.ports.hooks;
    return trouble === undefined ? [] : [trouble];
  }

  async settle(onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome | Settled> {
    return this.#client.order(helperVerbs.settle, {}, { ports: this.#ports, onEvent }, signal);
  }

  async look({ manual, force }: LookFlags, signal: AbortSignal): Promise<Look> {
    return this.#client.order(helperVerbs.look, { manual, force }, { ports: this.#ports }, signal);
  }

  async forget(version: string): Promise<readonly string[]> {
    const { versions } = await this.#client.ask(helperVerbs.forget, { version });
    return versions;
  }

  async hold(order: InputOf<'hold'>): Promise<Standstill> {
    return this.#client.ask(helperVerbs.hold, order);
  }

  async resume(): Promise<boolean> {
    return (await this.#client.ask(helperVerbs.resume, {})).wasHeld;
  }

  async updateNow(
    { reboot, force, manual }: InstallFlags & { readonly manual: boolean },
    onEvent: OnEvent,
    signal: AbortSignal,
  ): Promise<OperationOutcome> {
    return this.#client.order(helperVerbs.update, { reboot, force, manual }, { ports: this.#ports, onEvent }, signal);
  }

  async installFile(
    file: FirmwareSource,
    name: string,
    { reboot, force, allowDowngrade }: InstallFlags,
    { onEvent, signal }: { readonly onEvent: OnEvent; readonly signal: AbortSignal },
  ): Promise<OperationOutcome> {
    const ports = { ...this.#ports, file };
    const order = { name, reboot, force, ...(allowDowngrade === true && { allowDowngrade }) };
    return this.#client.order(helperVerbs.install, order, { ports, onEvent }, signal);
  }

  async commit(onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    return this.#client.order(helperVerbs.commit, {}, { ports: this.#ports, onEvent }, signal);
  }

  async rollback({ reboot, force }: InstallFlags, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    const order = { reboot, ...(force && { force }) };
    return this.#client.order(helperVerbs.rollback, order, { ports: this.#ports, onEvent }, signal);
  }

  async cancel(onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    return this.#client.order(helperVerbs.cancel, {}, { ports: this.#ports, onEvent }, signal);
  }

  async reboot(_argument: string | undefined, signal: AbortSignal): Promise<void> {
    await this.#client.order(helperVerbs.reboot, {}, { ports: this.#ports }, signal);
  }

  async findUnarmed(signal: AbortSignal): Promise<Unarmed | undefined> {
    return (await this.#client.ask(helperVerbs.findUnarmed, {}, signal)).unarmed;
  }

  get #client(): HelperClient {
    return this.#deps.engine.client;
  }

  get #ports(): AgentPorts {
    return this.#deps.ports;
  }
}
