import { randomUUID } from 'node:crypto';
import { join } from 'node:path';

import type { Config } from '../../config/config.ts';
import type { FlashableBoard } from '../../mcu/create-board.ts';
import { BoardStore } from '../../mcu/flash/board-store.ts';
import { boardImageReader } from '../../mcu/images/board-image.ts';
import { createMcuTarget } from '../../mcu/mcu-target.ts';
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
import { longestHealthMs } from '../../update/trial/health-gate.ts';
import type { HealthGate } from '../../update/trial/health-gate.ts';
import { Updater } from '../../update/updater.ts';
import { tellSafetyNet } from '../doctor/safety-net.ts';
import { admitStateDirectory, stateFs } from '../doctor/state-directory.ts';
import type { History } from '../history/history.ts';
import { JournalWithHistory } from '../history/journal-with-history.ts';
import { KeptBoards } from '../kept-boards.ts';
import { noteRefusal } from '../security/note-events.ts';
import type { SecurityNotes } from '../security/security-log.ts';
import { bootingTarget, followOf, stagingSettings } from './settings.ts';
import { singleSystem } from './single-system.ts';
import { hasBootloader, otherSlots } from './slot-settings.ts';
import { stagingWithKeys } from './staging-with-keys.ts';
import type { Trust } from './trust.ts';
import type { EngineWorld } from './wiring.ts';

// The parts that install: journal, floors, slots and bootloader. They are in the agent, or in its helper; whoever has
// a helper must not load this file, or what it imports.

export interface EngineParts {
  readonly config: Config;
  readonly world: EngineWorld;
  readonly trust: Trust;
  readonly machine: Machine;
  readonly security: SecurityNotes;
  readonly history: Pick<History, 'note'>;
  /** The journal that a reload keeps; undefined: it is opened. */
  readonly journal?: Journal | undefined;
  /** Where the safety net is told that a slot is kept. Default: the agent's run directory. */
  readonly runDirectory?: string;
  readonly flashableOf: (settings: BoardSettings) => FlashableBoard;
  readonly ports: EnginePorts;
}

/** What only the process with the network can do. */
export interface EnginePorts {
  readonly service: ProvisioningService;
  readonly health: HealthGate;
  readonly hooks: HookPort;
  readonly meteredLink: () => Promise<string | undefined>;
  /** Why the next start of the agent would refuse its configuration; undefined: it would not. */
  readonly configTrouble: () => Promise<string | undefined>;
}

export interface Engine {
  readonly config: Config;
  readonly journal: Journal;
  readonly trust: Trust;
  readonly machine: Machine;
  readonly targets: ReadonlyMap<string, Target>;
  /** Undefined: no target of kind slots is configured. */
  readonly bootloader: Bootloader | undefined;
  /** Undefined: no target is configured. */
  readonly updater: Updater | undefined;
  readonly boards: KeptBoards;
}

export async function engineOf(parts: EngineParts): Promise<Engine> {
  const { config, world, trust, security, history, machine, flashableOf, ports } = parts;
  const { slots, bootloader } = await wireSlots(config, world, machine, parts.runDirectory);
  const boards = wireBoards(config, flashableOf);
  const targets = targetsOf(slots, boards, wirePackages(config, world));
  const journal = parts.journal ?? new JournalWithHistory(await openJournal(config, world.log, security), history);
  const wired = { config, world, journal, trust, security, machine, targets, bootloader, ...ports };
  return {
    ...wired,
    updater: targets.size === 0 ? undefined : wireUpdater(wired),
    boards: new KeptBoards({ config, journal, boards, security, log: world.log }),
  };
}

async function openJournal(config: Config, log: Log, security: SecurityNotes): Promise<Journal> {
  const { state } = config.paths;
  return FileJournal.open(state, log, stateFs(config), {
    admit: async () => admitStateDirectory(config),
    onFloorsLost: async () => security.record('floor-lost', state),
  });
}

async function wireSlots(
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
function wireBoards(
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

function wirePackages(config: Config, { clock }: EngineWorld): readonly PackageTarget[] {
  const settings = config.targets.filter((target) => target.kind === 'package');
  const around = {
    clock,
    run: runProgram,
    healthMs: longestHealthMs(config.update.health),
    askGuard: guardOn(PACKAGE_GUARD),
  };
  const folder = join(config.paths.state, 'packages');
  return settings.map((target) => createPackageTarget(target, join(folder, target.name), around));
}

/** What updates left of the packages that are targets, by the names of these; only who installs may read it. */
export async function packagesLeft({ targets, paths }: Config): ReturnType<typeof leftByUpdates> {
  const names = targets.flatMap(({ kind, name }) => (kind === 'package' ? [name] : []));
  return leftByUpdates(names, (name) => join(paths.state, 'packages', name));
}

/** All targets by their names. */
function targetsOf(
  slots: readonly SlotsTarget[],
  boards: ReadonlyMap<string, McuTargetDeps>,
  packages: readonly PackageTarget[],
): ReadonlyMap<string, Target> {
  const targets: readonly Target[] = [...slots, ...[...boards.values()].map(createMcuTarget), ...packages];
  return new Map(targets.map((target) => [target.name, target]));
}

interface UpdaterWiringDeps extends EnginePorts, Omit<Engine, 'updater' | 'boards'> {
  readonly world: EngineWorld;
  readonly security: SecurityNotes;
}

function wireUpdater(deps: UpdaterWiringDeps): Updater {
  const { journal, config, world, service, health, hooks, meteredLink, configTrouble } = deps;
  const { targets, bootloader = singleSystem, machine, trust, security } = deps;
  const { update, report } = config;
  const { clock, random, log } = world;
  const ports = {
    journal,
    bootloader,
    targets,
    openFirmware: stagingWithKeys(stagingSettings(config), trust, security),
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
    configTrouble,
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
