import { randomUUID } from 'node:crypto';
import { join } from 'node:path';

import type { Config } from '../../config/config.ts';
import type { OpenPort } from '../../mcu/line.ts';
import { createMcuTarget, mcuTargetParts } from '../../mcu/mcu-target.ts';
import type { McuTargetParts } from '../../mcu/mcu-target.ts';
import { FileIdentityStore } from '../../service/identity.ts';
import type { IdentityStore } from '../../service/identity.ts';
import type { MessagingTransport } from '../../service/messaging/transport.ts';
import { ServiceSession } from '../../service/session.ts';
import type { Throttle } from '../../service/throttle.ts';
import { Traffic } from '../../service/traffic.ts';
import { createBootloader } from '../../slots/bootloaders/create-bootloader.ts';
import type { BootloaderSurroundings } from '../../slots/bootloaders/create-bootloader.ts';
import { findMountedSlot } from '../../slots/mounts.ts';
import { createSlotsTarget } from '../../slots/slots-target.ts';
import { findMeteredLink } from '../../system/device/default-route.ts';
import { findImageVersion } from '../../system/device/image-version.ts';
import { findSerialNumber } from '../../system/device/serial-number.ts';
import type { AgentError } from '../../system/errors.ts';
import type { Log } from '../../system/log/log.ts';
import { runProgram } from '../../system/processes/child-process.ts';
import type { Environment } from '../../system/processes/environment.ts';
import { LinuxMachine } from '../../system/processes/machine.ts';
import type { Clock } from '../../system/time/clock.ts';
import { minuteOfDay } from '../../system/time/daily-window.ts';
import { probeSynchronization } from '../../telemetry/clock/clock.ts';
import type { StagedBefore } from '../../update/choice/order.ts';
import { Hooks } from '../../update/hooks/hooks.ts';
import { FileJournal } from '../../update/journal/journal.ts';
import type { Journal } from '../../update/journal/journal.ts';
import type { Bootloader, SlotsTarget, Target } from '../../update/ports.ts';
import { createHealthGate } from '../../update/trial/health.ts';
import { Updater } from '../../update/updater.ts';
import { tellSafetyNet } from '../doctor/safety-net.ts';
import { admitStateDirectory, prepareStateDirectory, stateFs } from '../doctor/state-directory.ts';
import { History } from '../history/history.ts';
import { JournalWithHistory } from '../history/journal-with-history.ts';
import { noteRefusal } from '../security/note-events.ts';
import { SecurityLog } from '../security/security-log.ts';
import { bootingTarget, followOf, hookPrograms, stagingSettings } from './settings.ts';
import { singleSystem } from './single-system.ts';
import { hasBootloader, otherSlots } from './slot-settings.ts';
import { stagingWithKeys } from './staging-with-keys.ts';
import { Trust } from './trust.ts';
import { wireService } from './wire-service.ts';

export interface World {
  readonly environment: Environment;
  readonly clock: Clock;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  readonly log: Log;
  readonly agentVersion: string;
  /** Where the system's word on this boot is read; its own places, if not given. */
  readonly boot?: Pick<BootloaderSurroundings, 'commandLine' | 'deviceTreePartition'> & {
    /** Of systemd-timesyncd. */
    readonly timesync?: string;
  };
  /** Opens the port of a microcontroller; undefined: as it is. */
  readonly openPort?: OpenPort;
  /** Told what the service's clock shows. */
  readonly onServiceTime?: (atMs: number) => void;
  /** The gateway was activated, again or for the first time. */
  readonly onActivated?: () => void;
  /** Something joined the log of security events. */
  readonly onSecurityEvent?: () => void;
}

/** Everything that one configuration brings to life; disposed as a whole. */
export interface Wiring extends AsyncDisposable {
  readonly config: Config;
  readonly world: World;
  readonly serialNumber: string;
  readonly journal: Journal;
  readonly identities: IdentityStore;
  readonly session: ServiceSession;
  /** Undefined: nothing is said through a broker. */
  readonly messaging: MessagingTransport | undefined;
  /** Of downloads; undefined: no rate is configured. */
  readonly throttle: Throttle | undefined;
  /** Of the line to the service, since this process began. */
  readonly traffic: Traffic;
  readonly targets: ReadonlyMap<string, Target>;
  readonly machine: LinuxMachine;
  readonly trust: Trust;
  readonly security: SecurityLog;
  readonly history: History;
  /** Microcontrollers, by target. */
  readonly boards: ReadonlyMap<string, McuTargetParts>;
  /** Undefined: no target of kind slots is configured. */
  readonly bootloader: Bootloader | undefined;
  /** Undefined: no target at all is configured. */
  readonly updater: Updater | undefined;
}

/**
 * Rooms and ports, put together. Nothing is asked of the service or the bootloader yet. `before` is what this replaces:
 * journal, history, security log and the count of traffic stay the same objects, so that an operation that still runs there and one that begins here see one state.
 */
export async function wire(
  config: Config,
  world: World,
  before: (Pick<Wiring, 'journal'> & Partial<Pick<Wiring, 'security' | 'history' | 'traffic'>>) | undefined,
  signal: AbortSignal,
): Promise<Wiring> {
  const { clock, random, log } = world;
  await prepareStateDirectory(config, log);
  const place = { stateDirectory: config.paths.state, fs: stateFs(config) };
  const security = before?.security ?? new SecurityLog({ ...world, ...place, onEvent: world.onSecurityEvent });
  const history = before?.history ?? new History({ ...world, ...place });
  const serialNumber = await findSerialNumber(config.device, signal);
  await using opened = new AsyncDisposableStack();
  const trust = new Trust({ config, fs: place.fs, clock, probe: probeSynchronization(world.boot?.timesync) });
  const traffic = before?.traffic ?? new Traffic(clock);
  const heard = { ...world, traffic, onServiceTime: tellBoth(trust, world) };
  const { transport, messaging, throttle } = opened.use(await wireService(config, heard, serialNumber));
  const identities = new FileIdentityStore(config.paths.state, serialNumber, log, place.fs);
  const session = new ServiceSession({
    transport,
    identities,
    serialNumber,
    clock,
    random,
    log,
    onActivated: (thingId, isAgain) => {
      void security.record(isAgain ? 'reactivated' : 'activated', `as thing ${thingId}`);
      world.onActivated?.();
    },
    onShared: () => void security.record('serial-number-shared', serialNumber),
  });
  const machine = new LinuxMachine(config.system);
  const { slots, bootloader } = wireSlots(config, world, machine);
  const boards = wireBoards(config, world);
  const targets = targetsOf(slots, boards);
  const journal = before?.journal ?? new JournalWithHistory(await openJournal(config, log, security), history);
  const parts = { journal, config, world, session, targets, machine, trust, security };
  const updater = targets.size === 0 ? undefined : wireUpdater({ ...parts, bootloader: bootloader ?? singleSystem });
  const resources = opened.move();
  const dispose = async (): Promise<void> => resources.disposeAsync();
  const rooms = {
    journal,
    identities,
    session,
    messaging,
    throttle,
    traffic,
    targets,
    boards,
    machine,
    trust,
    security,
    history,
    bootloader,
    updater,
  };
  return { config, world, serialNumber, ...rooms, [Symbol.asyncDispose]: dispose };
}

function tellBoth(trust: Trust, { onServiceTime }: World): (atMs: number) => void {
  return (atMs) => {
    trust.hear(atMs);
    onServiceTime?.(atMs);
  };
}

async function openJournal(config: Config, log: Log, security: SecurityLog): Promise<Journal> {
  const { state } = config.paths;
  return FileJournal.open(state, log, stateFs(config), {
    admit: async () => admitStateDirectory(config),
    onFloorsLost: async () => security.record('floor-lost', state),
  });
}

function wireSlots(
  config: Config,
  { log, boot }: World,
  machine: LinuxMachine,
): { readonly slots: readonly SlotsTarget[]; readonly bootloader: Bootloader | undefined } {
  const settings = config.targets.filter((target) => target.kind === 'slots');
  const booting = settings.find(hasBootloader);
  if (booting === undefined) return { slots: [], bootloader: undefined };
  const mountedSlot = async (): ReturnType<typeof findMountedSlot> => findMountedSlot(booting.slots);
  const onKept = async (): Promise<void> => tellSafetyNet(config.paths.run, machine, log);
  const bootloader = createBootloader(booting, { ...boot, mountedSlot, log, onKept });
  const bootedSlot: Bootloader['bootedSlot'] = async (signal) => bootloader.bootedSlot(signal);
  const slots = settings.map((target) =>
    createSlotsTarget({ ...target, others: otherSlots(config, target) }, { bootedSlot, log }),
  );
  return { slots, bootloader };
}

function wireBoards(config: Config, world: World): ReadonlyMap<string, McuTargetParts> {
  const settings = config.targets.filter((target) => target.kind === 'mcu');
  const folder = join(config.paths.state, 'boards');
  return new Map(settings.map((target) => [target.name, mcuTargetParts(target, join(folder, target.name), world)]));
}

function targetsOf(
  slots: readonly SlotsTarget[],
  boards: ReadonlyMap<string, McuTargetParts>,
): ReadonlyMap<string, Target> {
  const targets: readonly Target[] = [...slots, ...[...boards.values()].map(createMcuTarget)];
  return new Map(targets.map((target) => [target.name, target]));
}

interface UpdaterWiring {
  readonly journal: Journal;
  readonly config: Config;
  readonly world: World;
  readonly session: ServiceSession;
  readonly targets: ReadonlyMap<string, Target>;
  readonly bootloader: Bootloader;
  readonly machine: LinuxMachine;
  readonly trust: Trust;
  readonly security: SecurityLog;
}

function wireUpdater(parts: UpdaterWiring): Updater {
  const { journal, config, world, session, targets, bootloader, machine, trust, security } = parts;
  const { update, report } = config;
  const { clock, random, log } = world;
  const reachService = async (signal: AbortSignal): Promise<void> => {
    await session.currentVersion(signal);
  };
  const ports = {
    journal,
    bootloader,
    targets,
    stageFirmware: stagingWithKeys(stagingSettings(config), trust, security),
    revokedReleases: async () => trust.revokedReleases(),
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
    meteredLink: async () => findMeteredLink(update.metered),
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
  const hooks = new Hooks(hookPrograms(config), { run: runProgram, clock });
  return new Updater({ ports, service: session, settings, hooks, minuteOfDay: () => minuteOfDay(clock) });
}
