import { randomUUID } from 'node:crypto';
import { join } from 'node:path';

import type { Config } from '../../config/config.ts';
import type { ReadStateText } from '../../firmware/trust/trust-store.ts';
import type { FlashableBoard } from '../../mcu/create-board.ts';
import { BoardStore } from '../../mcu/flash/board-store.ts';
import { boardImageReader, createMcuTarget } from '../../mcu/mcu-target.ts';
import type { McuTargetDeps } from '../../mcu/mcu-target.ts';
import type { BoardSettings } from '../../mcu/settings.ts';
import { guardOn, PACKAGE_GUARD } from '../../package/guard-socket.ts';
import { leftByUpdates } from '../../package/left-by-updates.ts';
import { createPackageTarget } from '../../package/package-target.ts';
import { createBootloader } from '../../slots/bootloaders/create-bootloader.ts';
import { findMountedSlot } from '../../slots/mounts.ts';
import { createSlotsTarget } from '../../slots/slots-target.ts';
import { findImageVersion } from '../../system/device/image-version.ts';
import type { AgentError } from '../../system/errors.ts';
import type { Log } from '../../system/log/log.ts';
import { runProgram } from '../../system/processes/child-process.ts';
import { minuteOfDay } from '../../system/time/daily-window.ts';
import { probeSynchronization } from '../../telemetry/clock/clock.ts';
import type { StagedBefore } from '../../update/choice/order.ts';
import type { HookPort } from '../../update/hooks/hooks.ts';
import { FileJournal } from '../../update/journal/journal.ts';
import type { Journal } from '../../update/journal/journal.ts';
import type {
  Bootloader,
  Machine,
  PackageTarget,
  ProvisioningService,
  SlotsTarget,
  Target,
} from '../../update/ports.ts';
import type { HealthGate } from '../../update/trial/health-gate.ts';
import { Updater } from '../../update/updater.ts';
import { tellSafetyNet } from '../doctor/safety-net.ts';
import { admitStateDirectory, stateFs } from '../doctor/state-directory.ts';
import { noteRefusal } from '../security/note-events.ts';
import type { SecurityNotes } from '../security/security-log.ts';
import { bootingTarget, followOf, stagingSettings } from './settings.ts';
import { singleSystem } from './single-system.ts';
import { hasBootloader, otherSlots } from './slot-settings.ts';
import { stagingWithKeys } from './staging-with-keys.ts';
import { Trust } from './trust.ts';
import type { World } from './wiring.ts';

// Wires the parts that install: journal, keys, floors, slots and bootloader. They are in the agent, or in its helper.

/** `readText` is given where the helper keeps the lists. */
export function wireTrust(config: Config, { clock, boot }: EngineWorld, readText?: ReadStateText): Trust {
  return new Trust({ config, fs: stateFs(config), clock, probe: probeSynchronization(boot?.timesync), readText });
}

export async function openJournal(config: Config, log: Log, security: SecurityNotes): Promise<Journal> {
  const { state } = config.paths;
  return FileJournal.open(state, log, stateFs(config), {
    admit: async () => admitStateDirectory(config),
    onFloorsLost: async () => security.record('floor-lost', state),
  });
}

/** `runDirectory`: where the safety net is told that a slot is kept. */
export async function wireSlots(
  config: Config,
  { log, boot }: EngineWorld,
  machine: Machine,
  runDirectory = config.paths.run,
): Promise<{ readonly slots: readonly SlotsTarget[]; readonly bootloader: Bootloader | undefined }> {
  const settings = config.targets.filter((target) => target.kind === 'slots');
  const booting = settings.find(hasBootloader);
  if (booting === undefined) return { slots: [], bootloader: undefined };
  const mountedSlot = async (): ReturnType<typeof findMountedSlot> => findMountedSlot(booting.slots);
  const onKept = async (): Promise<void> => tellSafetyNet(runDirectory, machine, log);
  const bootloader = await createBootloader(booting, { ...boot, mountedSlot, log, onKept });
  const bootedSlot: Bootloader['bootedSlot'] = async (signal) => bootloader.bootedSlot(signal);
  const slots = settings.map((target) =>
    createSlotsTarget({ ...target, others: otherSlots(config, target) }, { bootedSlot, log }),
  );
  return { slots, bootloader };
}

/** The boards by the name of their target, each with its folder. */
export function wireBoards(
  { targets, paths }: Config,
  flashableOf: (settings: BoardSettings) => FlashableBoard,
): ReadonlyMap<string, McuTargetDeps> {
  const settings = targets.filter((target) => target.kind === 'mcu');
  return new Map(
    settings.map((target) => {
      const store = new BoardStore(join(paths.state, 'boards', target.name));
      return [target.name, { board: flashableOf(target), store, readImage: boardImageReader(target) }];
    }),
  );
}

export function wirePackages(config: Config, { clock }: EngineWorld): readonly PackageTarget[] {
  const settings = config.targets.filter((target) => target.kind === 'package');
  const { deadlineMs: healthMs } = config.update.health;
  const around = { clock, run: runProgram, healthMs, askGuard: guardOn(PACKAGE_GUARD) };
  const folder = join(config.paths.state, 'packages');
  return settings.map((target) => createPackageTarget(target, join(folder, target.name), around));
}

/** What updates left of the packages that are targets, by the names of these; only who installs may read it. */
export async function packagesLeft({ targets, paths }: Config): ReturnType<typeof leftByUpdates> {
  const names = targets.flatMap(({ kind, name }) => (kind === 'package' ? [name] : []));
  return leftByUpdates(names, (name) => join(paths.state, 'packages', name));
}

/** All targets by their names. */
export function targetsOf(
  slots: readonly SlotsTarget[],
  boards: ReadonlyMap<string, McuTargetDeps>,
  packages: readonly PackageTarget[],
): ReadonlyMap<string, Target> {
  const targets: readonly Target[] = [...slots, ...[...boards.values()].map(createMcuTarget), ...packages];
  return new Map(targets.map((target) => [target.name, target]));
}

export type EngineWorld = Pick<World, 'clock' | 'random' | 'log' | 'boot'>;

export interface UpdaterWiringDeps {
  readonly journal: Journal;
  readonly config: Config;
  readonly world: EngineWorld;
  readonly service: ProvisioningService;
  readonly health: HealthGate;
  readonly hooks: HookPort;
  readonly meteredLink: () => Promise<string | undefined>;
  readonly targets: ReadonlyMap<string, Target>;
  /** Undefined: there are only boards. */
  readonly bootloader: Bootloader | undefined;
  readonly machine: Machine;
  readonly trust: Trust;
  readonly security: SecurityNotes;
}

export function wireUpdater(deps: UpdaterWiringDeps): Updater {
  const { journal, config, world, service, health, hooks, meteredLink } = deps;
  const { targets, bootloader = singleSystem, machine, trust, security } = deps;
  const { update, report } = config;
  const { clock, random, log } = world;
  const ports = {
    journal,
    bootloader,
    targets,
    openFirmware: stagingWithKeys(stagingSettings(config), trust, security),
    revokedReleases: async () => trust.revokedReleases(),
    distrusted: async (firmware: StagedBefore, signal: AbortSignal) => trust.distrusted(firmware, signal),
    revoked: async (firmware: StagedBefore) => trust.revoked(firmware),
    health,
    machine,
    clock,
    isClockSet: async (signal: AbortSignal) => trust.isClockSet(signal),
    random,
    log,
    imageVersion: async () => findImageVersion(config.device, log),
    listInEffect: async () => trust.listInEffect(),
    meteredLink,
    isVersionConfigured: config.device.factoryVersion !== undefined,
    newAttemptId: randomUUID,
    onRefused: async (error: AgentError) => noteRefusal(security, error),
    settings: {
      defaultTarget: update.defaultTarget,
      bootingTarget: bootingTarget(config),
      trials: update.trialAttempts,
      attempts: update.attempts,
      quarantineMs: update.quarantineMs,
      release: config.trust,
    },
  };
  const settings = {
    follow: followOf(update),
    policy: update,
    wholeImage: update.wholeImage,
    outcomeProperty: report.outcome,
    wholeImageProperty: report.wholeImage,
  };
  return new Updater({ ports, service, settings, hooks, minuteOfDay: () => minuteOfDay(clock) });
}
