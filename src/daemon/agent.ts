import { basename } from 'node:path';

import type { OperationOutcome } from '../control/events.ts';
import type { DaemonStatus } from '../control/gateway-state.ts';
import type { AgentOperations } from '../control/operations.ts';
import type { Activity } from '../control/reports.ts';
import { sourceOf } from '../firmware/file-source.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import type { Updater } from '../update/updater.ts';
import type { CheckStats } from './cycles/scheduler.ts';
import { noTargetsError } from './doctor/preconditions.ts';
import type { ReloadedConfig } from './doctor/preconditions.ts';
import { listSensors, noQueue, sendPoints, trySensor } from './measurements.ts';
import { recordForce } from './security/record-events.ts';
import { checkReport } from './status/check-report.ts';
import { gatherStatus } from './status/gather-status.ts';
import type { Wiring } from './wiring/wiring.ts';

export interface AgentDeps {
  /** Called for each operation, since a reload replaces the wiring. */
  readonly wiring: () => Wiring;
  /** The daemon's telemetry. Without it, values go directly to the service. */
  readonly telemetry?: () => Telemetry | undefined;
  readonly daemon: DaemonStatus;
  /** The schedule of checks, if a daemon runs that checks automatically. */
  readonly looks?: () => CheckStats;
  readonly warnings: () => readonly string[];
  readonly readAgain?: ReloadedConfig;
  /** The change that another process is making, if any. */
  readonly activity?: () => Activity | undefined;
  /** Runs work while no other operation runs. Absent if there are no other operations. */
  readonly alone?: (
    work: (signal: AbortSignal) => Promise<OperationOutcome>,
    signal: AbortSignal,
  ) => Promise<OperationOutcome>;
  /** Resources that are disposed with this agent. */
  readonly resources?: AsyncDisposable;
}

export type Agent = AgentOperations & AsyncDisposable;

/**
 * The operations that an operator or a program can request, performed in this process. They are called one at a time.
 */
export function createAgent(deps: AgentDeps): Agent {
  return {
    ...reportOperations(deps),
    ...updateOperations(deps),
    ...measuringOperations(deps),
    ...boardOperations(deps),
    [Symbol.asyncDispose]: async () => deps.resources?.[Symbol.asyncDispose](),
  };
}

function reportOperations(deps: AgentDeps) {
  return {
    status: async (_input, signal) => gatherStatus(deps, signal),
    check: async (_input, signal) => {
      const look = await updaterOf(deps).look({ manual: true, force: false }, signal);
      const { journal, trust, bootloader } = deps.wiring();
      const booted = await bootloader?.bootedSlot(signal);
      return checkReport(journal.state, look, booted, await trust.keyNames(signal));
    },
    history: async () => {
      const { history, journal } = deps.wiring();
      return history.report(journal.state);
    },
    inspect: async ({ allowDowngrade, ...named }, signal) => {
      const { inspectFile } = await import('./inspect-file.ts');
      return inspectFile(named, deps.wiring(), signal, allowDowngrade);
    },
    securityLog: async () => deps.wiring().security.report(),
    doctor: async (_input, signal) => {
      const { diagnose } = await import('./doctor/doctor.ts');
      return { findings: [...(await diagnose(deps, signal))] };
    },
  } satisfies Partial<AgentOperations>;
}

function updateOperations(deps: AgentDeps) {
  return {
    update: async (flags, onEvent, signal) => {
      const updater = updaterOf(deps);
      const { security, boards } = deps.wiring();
      await recordForce(security, 'update', flags);
      await boards.recover(onEvent, signal);
      return updater.updateNow({ ...flags, manual: true }, onEvent, signal);
    },
    install: async ({ path, file, ...flags }, onEvent, signal) => {
      await recordForce(deps.wiring().security, `install ${path}`, flags);
      return updaterOf(deps).installFile(sourceOf(file), basename(path), flags, { onEvent, signal });
    },
    activate: async (_input, signal) => deps.wiring().session.activate(signal),
    commit: async (_input, onEvent, signal) => updaterOf(deps).commit(onEvent, signal),
    rollback: async (flags, onEvent, signal) => {
      await recordForce(deps.wiring().security, 'rollback', flags);
      return updaterOf(deps).rollback(flags, onEvent, signal);
    },
    cancel: async (_input, onEvent, signal) => {
      const { updater, journal } = deps.wiring();
      const version = journal.state.installed?.version.name ?? 'the running version';
      return updater === undefined ? { kind: 'nothing-to-cancel', version } : updater.cancel(onEvent, signal);
    },
    reboot: async (_input, signal) => {
      const { machine, updater } = deps.wiring();
      const work = async (inner: AbortSignal): Promise<void> => (updater ?? machine).reboot(undefined, inner);
      const unarmed = await updater?.findUnarmed(signal);
      const { alone } = deps;
      if (unarmed === undefined || alone === undefined) await work(signal);
      else await alone(async (inner) => work(inner).then(() => ({ kind: 'rebooting', ...unarmed })), signal);
      return {};
    },
    unblock: async ({ version }) => ({ versions: [await updaterOf(deps).unblock(version)] }),
    hold: async (order) => updaterOf(deps).hold(order),
    resume: async () => ({ wasHeld: await updaterOf(deps).resume() }),
  } satisfies Partial<AgentOperations>;
}

function measuringOperations(deps: AgentDeps) {
  const queueOwner = (): Telemetry => {
    const telemetry = deps.telemetry?.();
    if (telemetry === undefined) throw noQueue();
    return telemetry;
  };
  return {
    property: async ({ id }, signal) => ({ value: await deps.wiring().session.property(id, signal) }),
    setProperty: async ({ id, value }, signal) => {
      const telemetry = deps.telemetry?.();
      if (telemetry !== undefined) return { safeAt: await telemetry.setProperty(id, value, signal) };
      await deps.wiring().session.setProperty(id, value, signal);
      return { safeAt: 'service' };
    },
    sendDatapoint: async (point, signal) => ({ safeAt: await sendPoints([point], deps, signal) }),
    sendDatapoints: async ({ points }, signal) => ({ safeAt: await sendPoints(points, deps, signal) }),
    queue: async () => queueOwner().status(),
    sensors: async () => listSensors(deps),
    trySensor: async ({ name }, signal) => trySensor(name, deps, signal),
    syncQueue: async () => ({ onDisk: queueOwner().flush() }),
  } satisfies Partial<AgentOperations>;
}

function boardOperations({ wiring }: AgentDeps) {
  return {
    boards: async () => ({ boards: await wiring().boards.list() }),
    probeBoard: async ({ board }, signal) => wiring().boards.probe(board, signal),
    planBoard: async ({ board, ...named }, signal) => wiring().boards.plan(board, named, signal),
    resetBoard: async ({ board }, signal) => {
      await wiring().boards.restart(board, signal);
      return {};
    },
    flash: async (order, onEvent, signal) => {
      const { security, boards } = wiring();
      await recordForce(security, `mcu flash ${order.board} ${order.path}`, order);
      return boards.flash(order, onEvent, signal);
    },
    restore: async ({ board }, onEvent, signal) => wiring().boards.restore(board, onEvent, signal),
  } satisfies Partial<AgentOperations>;
}

function updaterOf({ wiring }: AgentDeps): Updater {
  const { updater } = wiring();
  if (updater === undefined) throw noTargetsError();
  return updater;
}
