import { randomUUID } from 'node:crypto';
import { join } from 'node:path';

import type { Config } from '../../config/config.ts';
import { firmwareOpener } from '../../firmware/open-firmware.ts';
import { createBoard } from '../../mcu/create-board.ts';
import { BoardStore } from '../../mcu/flash/board-store.ts';
import { boardImageReader } from '../../mcu/images/board-image.ts';
import { createMcuTarget } from '../../mcu/mcu-target.ts';
import type { McuTargetDeps } from '../../mcu/mcu-target.ts';
import { connectInstaller, PACKAGE_GUARD } from '../../package/installer-client.ts';
import { createPackageTarget } from '../../package/package-target.ts';
import type { ServiceSession } from '../../service/session.ts';
import { createBootloader } from '../../slots/bootloaders/create-bootloader.ts';
import { findMountedSlot } from '../../slots/mounts.ts';
import { createSlotsTarget } from '../../slots/slots-target.ts';
import { findMeteredLink } from '../../system/device/default-route.ts';
import { findImageVersion } from '../../system/device/image-version.ts';
import type { AgentError } from '../../system/errors.ts';
import type { Log } from '../../system/log/log.ts';
import { runProgram } from '../../system/processes/child-process.ts';
import { LinuxMachine } from '../../system/processes/machine.ts';
import { minuteOfDay } from '../../system/time/daily-window.ts';
import { Hooks } from '../../update/hooks/hooks.ts';
import { FileJournal } from '../../update/journal/journal.ts';
import type { Journal } from '../../update/journal/journal.ts';
import type { StagedBefore } from '../../update/policy/install-request.ts';
import type { Bootloader, Machine, PackageTarget, SlotsTarget, Target } from '../../update/ports.ts';
import type { OpenFirmware } from '../../update/ports/incoming.ts';
import { createHealthGate, longestHealthMs } from '../../update/trial/health.ts';
import { Updater } from '../../update/updater.ts';
import { LocalBoards } from '../boards.ts';
import { ensureStateDirectory, stateFs } from '../doctor/state-directory.ts';
import { notifyTrialTimer } from '../doctor/trial-timer.ts';
import { withHistory } from '../history/history.ts';
import type { History } from '../history/history.ts';
import { describeAppliedList } from '../security/applied-list.ts';
import { recordKeys, recordRejection } from '../security/record-events.ts';
import type { SecurityLog, SecurityRecorder } from '../security/security-log.ts';
import { bootingTarget, followOf, hasBootloader, hookPrograms, otherSlots, singleSystem } from './settings.ts';
import type { Trust } from './trust.ts';
import type { Runtime } from './wiring.ts';

export interface EngineDeps {
  readonly config: Config;
  readonly world: Runtime;
  readonly trust: Trust;
  readonly security: SecurityLog;
  readonly history: History;
  /** The journal that a reload keeps. If omitted, it is opened. */
  readonly journal: Journal | undefined;
  readonly service: ServiceSession;
}

/** Wires the parts that install: journal, slots, boards, packages and bootloader. */
export async function wireEngine(deps: EngineDeps) {
  const { config, world, security, history } = deps;
  const machine = new LinuxMachine(config.system);
  const { slots, bootloader } = await wireSlots(config, world, machine);
  const boards = await wireBoards(config, world);
  const targets = targetsOf(slots, boards, wirePackages(config, world));
  const journal = deps.journal ?? withHistory(await openJournal(config, world.log, security), history);
  const wired = { journal, targets, machine, bootloader };
  return {
    ...wired,
    boards: new LocalBoards({ config, journal, boards, security, log: world.log }),
    updater: targets.size === 0 ? undefined : wireUpdater({ ...deps, ...wired }),
  };
}

async function openJournal(config: Config, log: Log, security: SecurityLog): Promise<Journal> {
  const { state } = config.paths;
  return FileJournal.open(state, log, stateFs(config), {
    admit: async () => ensureStateDirectory(config),
    onFloorsLost: async () => security.record('minimum-version-lost', state),
  });
}

async function wireSlots(
  config: Config,
  { log, boot }: Runtime,
  machine: Machine,
): Promise<{ readonly slots: readonly SlotsTarget[]; readonly bootloader: Bootloader | undefined }> {
  const settings = config.targets.filter((target) => target.kind === 'slots');
  const booting = settings.find(hasBootloader);
  if (booting === undefined) return { slots: [], bootloader: undefined };
  const mountedSlot = async (): ReturnType<typeof findMountedSlot> => findMountedSlot(booting.slots);
  const onKept = async (): Promise<void> => notifyTrialTimer(config.paths.run, machine, log);
  const bootloader = await createBootloader(booting, { ...boot, mountedSlot, log, onKept });
  const bootedSlot: Bootloader['bootedSlot'] = async (signal) => bootloader.bootedSlot(signal);
  const slots = settings.map((target) =>
    createSlotsTarget({ ...target, others: otherSlots(config, target) }, { bootedSlot, log }),
  );
  return { slots, bootloader };
}

async function wireBoards({ targets, paths }: Config, world: Runtime): Promise<ReadonlyMap<string, McuTargetDeps>> {
  const boards = targets.filter((target) => target.kind === 'mcu');
  const wired = boards.map(async (target): Promise<[string, McuTargetDeps]> => {
    const store = new BoardStore(join(paths.state, 'boards', target.name));
    const board = await createBoard(target, { ...world, boards });
    return [target.name, { board, port: target.port, store, readImage: boardImageReader(target) }];
  });
  return new Map(await Promise.all(wired));
}

function wirePackages(config: Config, { clock }: Runtime): readonly PackageTarget[] {
  const settings = config.targets.filter((target) => target.kind === 'package');
  const around = {
    clock,
    run: runProgram,
    healthMs: longestHealthMs(config.update.health),
    askGuard: connectInstaller(PACKAGE_GUARD),
  };
  return settings.map((target) => createPackageTarget(target, packageFolder(config, target.name), around));
}

/** The directory in which what an update needs of a package is kept, by the name of its target. */
export function packageFolder({ paths }: Pick<Config, 'paths'>, name: string): string {
  return join(paths.state, 'packages', name);
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

interface UpdaterDeps extends EngineDeps {
  readonly journal: Journal;
  readonly targets: ReadonlyMap<string, Target>;
  readonly machine: Machine;
  /** Absent without a target of kind slots. */
  readonly bootloader: Bootloader | undefined;
}

function wireUpdater(deps: UpdaterDeps): Updater {
  const { journal, config, world, service } = deps;
  const { targets, bootloader = singleSystem, machine, trust, security } = deps;
  const { update, report } = config;
  const { clock, random, log } = world;
  const reachService = async (signal: AbortSignal): Promise<unknown> => service.currentVersion(signal);
  const ports = {
    journal,
    bootloader,
    targets,
    openFirmware: stagingWithKeys(config, trust, security),
    distrusted: async (firmware: StagedBefore, signal: AbortSignal) => trust.distrusted(firmware, signal),
    revoked: async (firmware: StagedBefore) => trust.revoked(firmware),
    health: createHealthGate(update.health, { clock, run: runProgram, reachService }),
    machine,
    clock,
    isClockSet: async (signal: AbortSignal) => trust.isClockSet(signal),
    random,
    log,
    imageVersion: async () => findImageVersion(config.device, log),
    listInEffect: async () => trust.listInEffect(),
    appliedList: () => trust.collectNews(),
    meteredLink: async () => findMeteredLink(update.metered),
    configProblem: async () => world.configProblem?.(),
    isVersionConfigured: config.device.factoryVersion !== undefined,
    newAttemptId: randomUUID,
    onRefused: async (error: AgentError) => recordRejection(security, error),
    settings: {
      defaultTarget: update.defaultTarget,
      bootingTarget: bootingTarget(config),
      trials: update.trialAttempts,
      attempts: update.maxAttempts,
      quarantineMs: update.quarantineMs,
      release: config.trust,
    },
  };
  const settings = {
    follow: followOf(update),
    policy: { ...update, attempts: update.maxAttempts },
    wholeImage: update.fullImage,
    outcomeProperty: report.outcome,
    wholeImageProperty: report.fullImage,
  };
  const hooks = new Hooks(hookPrograms(config), { run: runProgram, clock });
  return new Updater({ ports, service, settings, hooks, minuteOfDay: () => minuteOfDay(clock) });
}

/** The part of a configuration that decides which artifacts are accepted. */
interface StagingConfig {
  readonly update: Pick<Config['update'], 'encoding'>;
  readonly device: { readonly deviceType: Config['device']['deviceType'] | undefined };
  readonly trust: Pick<Config['trust'], 'allowUnsigned'>;
}

/**
 * Stages firmware with keys that are read again each time: they may be replaced, and a bad key only stops updates. When
 * a trust list took effect, its changes are recorded.
 */
export function stagingWithKeys(
  { update, device, trust: { allowUnsigned } }: StagingConfig,
  trust: Trust,
  security: SecurityRecorder,
): OpenFirmware {
  return async (request, signal) => {
    const keyring = await trust.keyring(signal);
    const takeList = async (bytes: Uint8Array, artifact: string, signedBy: string | undefined): Promise<void> => {
      const taken = await trust.takeList(bytes, { artifact, signedBy }, keyring.keys);
      const told = describeAppliedList({ ...taken, signedBy, known: keyring.keys });
      await security.recordOnce('trust-list-applied', artifact, told);
      await recordKeys(security, trust, signal);
    };
    const trusted = { ...keyring, allowUnsigned, takeList };
    const settings = { encoding: update.encoding, deviceType: device.deviceType, trust: trusted };
    return firmwareOpener(settings)(request, signal);
  };
}
