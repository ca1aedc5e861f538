import type { OnEvent } from '../../../../src/control/events.ts';
import { claimState } from '../../../../src/daemon/wiring/claim-state.ts';
import { Trust } from '../../../../src/daemon/wiring/trust.ts';
import type { TrustSettings } from '../../../../src/firmware/artifact/trust.ts';
import { firmwareOpener } from '../../../../src/firmware/open-firmware.ts';
import { createPackageTarget } from '../../../../src/package/package-target.ts';
import { FileIdentityStore } from '../../../../src/service/identity.ts';
import { ServiceSession } from '../../../../src/service/session.ts';
import { AgentError } from '../../../../src/system/errors.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { ProgramError } from '../../../../src/system/processes/child-process.ts';
import type { runProgram } from '../../../../src/system/processes/child-process.ts';
import type { Clock } from '../../../../src/system/time/clock.ts';
import type { DailyWindow } from '../../../../src/system/time/daily-window.ts';
import { hookInput, hookNames, Hooks } from '../../../../src/update/hooks/hooks.ts';
import { FileJournal } from '../../../../src/update/journal/journal.ts';
import type { Journal } from '../../../../src/update/journal/journal.ts';
import type { Follow } from '../../../../src/update/policy/choose.ts';
import type { StagedBefore } from '../../../../src/update/policy/install-request.ts';
import type { Bootloader, Machine, PackageTarget, Target } from '../../../../src/update/ports.ts';
import type { OpenFirmware } from '../../../../src/update/ports/incoming.ts';
import { createHealthGate } from '../../../../src/update/trial/health.ts';
import { Updater } from '../../../../src/update/updater.ts';
import type { Scenario } from '../story.ts';
import { BOARD, TARGET } from './catalog.ts';
import type { Chronicle } from './chronicle.ts';
import { FACTORY_SERIAL_NUMBER } from './hardware.ts';
import type { Hardware } from './hardware.ts';
import { WHOLE_IMAGE } from './memory-transport.ts';
import type { MemoryTransport } from './memory-transport.ts';
import { APP, FOLDER } from './package-machine.ts';
import { DEVICE_TYPE } from './sending.ts';
import { STATE } from './state-mount.ts';

/** The window in which a waiting agent may reboot. */
export const MORNING: DailyWindow = { fromMinute: 6 * 60, toMinute: 12 * 60 };
const ATTEMPTS = 3;
const HEALTH = { deadlineMs: 5_000, commands: [['healthy']], units: [], stableForMs: 0, service: true } as const;
/** So that a short image has several. */
const CHECKPOINT_DISTANCE = { bytes: 24, shortestMs: 0, longestMs: Infinity };

export interface ProgramParts {
  readonly hardware: Hardware;
  readonly chronicle: Chronicle;
  readonly transport: MemoryTransport;
  readonly trust: TrustSettings;
  readonly follow: Follow;
  readonly imagesNameThemselves: boolean;
  readonly waitsFor?: Scenario['waitsFor'];
}

/** One life of the agent: the real rooms, wired as in src/daemon/wiring/wiring.ts, on hardware in memory. */
export class Program {
  readonly updater: Updater;
  readonly session: ServiceSession;
  readonly journal: Journal;
  readonly bootloader: Bootloader;
  readonly machine: Machine;
  readonly #life = new AbortController();

  private constructor(parts: ProgramParts, journal: Journal) {
    const { hardware, chronicle, transport, follow, imagesNameThemselves, waitsFor } = parts;
    const clock = fakeClock(hardware);
    const believed = trustOn(parts, clock);
    const identities = new FileIdentityStore(STATE, hardware.serialNumber, silentLog, hardware.stateMount.fs);
    const random = (): number => 0.5;
    this.session = new ServiceSession({
      transport,
      identities: chronicle.identityStore(identities),
      serialNumber: hardware.serialNumber,
      clock,
      random,
      log: silentLog,
    });
    this.journal = chronicle.journal(journal);
    this.bootloader = chronicle.bootloader(hardware.boot.bootloader);
    this.machine = machineOf(hardware);
    const reachService = async (signal: AbortSignal): Promise<void> => {
      await this.session.currentVersion(signal);
    };
    const ports = {
      journal: this.journal,
      bootloader: this.bootloader,
      targets: new Map<string, Target>([
        ...hardware.pairs.map((pair) => [pair.name, pair] as const),
        [BOARD, hardware.board],
        [APP, packageOf(hardware, clock)],
      ]),
      openFirmware: stagingWith(believed, parts),
      health: createHealthGate(HEALTH, { clock, run: healthProgram(hardware), reachService }),
      machine: chronicle.machine(this.machine, this.journal),
      clock,
      random,
      log: silentLog,
      distrusted: async (firmware: StagedBefore, signal: AbortSignal) => believed.distrusted(firmware, signal),
      revoked: async (firmware: StagedBefore) => believed.revoked(firmware),
      listInEffect: async () => believed.listInEffect(),
      imageVersion: async () => (imagesNameThemselves ? chronicle.imageIn(hardware.boot.booted)?.id : undefined),
      newAttemptId: (): string => {
        hardware.attempts += 1;
        return `attempt-${hardware.attempts}`;
      },
      meteredLink: async () => undefined,
      configProblem: async () => undefined,
      settings: {
        defaultTarget: TARGET,
        bootingTarget: TARGET,
        trials: 2,
        attempts: ATTEMPTS,
        release: { nameCheck: 'strict', downgrade: 'allow' } as const,
      },
    };
    const settings = {
      follow,
      policy: { attempts: ATTEMPTS, window: undefined, rebootWindow: waitsFor && MORNING },
      outcomeProperty: 'update_outcome',
      wholeImageProperty: WHOLE_IMAGE,
    };
    const hooks = waitsFor === 'window and hooks' ? hooksOf(hardware, clock) : undefined;
    this.updater = new Updater({
      ports,
      hooks,
      service: this.session,
      settings,
      minuteOfDay: () => hardware.minuteOfDay,
    });
  }

  static async start(parts: ProgramParts): Promise<Program> {
    const { serialNumber, stateMount } = parts.hardware;
    const fs = { ...stateMount.fs, mkdir: async () => undefined };
    const identities = new FileIdentityStore(STATE, serialNumber, silentLog, fs);
    if (serialNumber !== FACTORY_SERIAL_NUMBER) parts.chronicle.identities.add(undefined); // it may be set aside again
    const onJournal = await claimState({ stateDirectory: STATE, identities, log: silentLog, fs });
    const program = new Program(parts, await FileJournal.open(STATE, silentLog, fs));
    await onJournal(program.journal);
    return program;
  }

  get signal(): AbortSignal {
    return this.#life.signal;
  }

  /** Cancels everything that waits. */
  end(): void {
    this.#life.abort(new Error('the program has ended'));
  }
}

/** Trust lists are stored on the gateway's own disk. */
function trustOn({ hardware, trust: { keys, allowUnsigned } }: ProgramParts, clock: Clock): Trust {
  return new Trust({
    config: { trust: { keys: [], allowUnsigned }, paths: { state: STATE } },
    configuredKeys: async () => keys,
    fs: hardware.stateMount.fs,
    clock,
    probe: async () => 'unknown',
  });
}

/** As src/daemon/wiring/engine.ts. */
function stagingWith(believed: Trust, { trust, chronicle }: ProgramParts): OpenFirmware {
  return async (request, signal) => {
    const { keys, ...known } = await believed.keyring(signal);
    const takeList = async (bytes: Uint8Array, artifact: string, signedBy?: string): Promise<void> =>
      chronicle.lists.taking(bytes, async () => believed.takeList(bytes, { artifact, signedBy }, keys));
    const settings = { encoding: 'base64', deviceType: DEVICE_TYPE, checkpointDistance: CHECKPOINT_DISTANCE } as const;
    const keyring = { ...known, keys, allowUnsigned: trust.allowUnsigned, takeList };
    return firmwareOpener({ ...settings, trust: keyring })(request, signal);
  };
}

export const ignoreEvents: OnEvent = () => {};

/** Waiting costs nothing, except without power. */
function fakeClock(hardware: Hardware): Clock {
  return {
    nowMs: () => hardware.nowMs,
    monotonicMs: () => hardware.nowMs,
    sleep: async (ms, signal) => {
      signal.throwIfAborted();
      hardware.power.need('sleep');
      hardware.nowMs += ms;
    },
  };
}

/** The real target, with a fake package installer and dpkg. */
function packageOf({ app }: Hardware, clock: Clock): PackageTarget {
  const settings = {
    kind: 'package',
    name: APP,
    package: APP,
    installDeadlineMs: 60_000,
    gracePeriodMs: 60_000,
  } as const;
  const around = { clock, run: app.run, healthMs: HEALTH.deadlineMs, askGuard: app.ask, fs: app.disk.api };
  return createPackageTarget(settings, FOLDER, around);
}

function machineOf(hardware: Hardware): Machine {
  return {
    bootId: async () => {
      hardware.power.need('read the boot id');
      return `boot-${hardware.boots}`;
    },
    reboot: async (argument, signal) => {
      signal.throwIfAborted();
      hardware.power.need('reboot');
      if (hardware.faults.strikes('reboot-refused')) {
        throw new AgentError({ code: 'reboot-failed', message: 'refused', remedy: 'retry', exit: 'failed' });
      }
      hardware.rebootAsked = { argument };
    },
  };
}

/** They consent in the second half of each hour, and remember all notifications. */
function hooksOf(hardware: Hardware, clock: Clock): Hooks {
  const run: typeof runProgram = async (_command, { input = '' }, signal) => {
    signal.throwIfAborted();
    hardware.power.need('run');
    const { hook, attempt } = hookInput.parse(JSON.parse(input));
    const isAsked = hook === 'before_install' || hook === 'before_reboot';
    if (!isAsked) {
      hardware.power.step(`the application is told ${hook}`);
      hardware.told.add(attempt);
    }
    return { exitCode: isAsked && hardware.minuteOfDay % 60 < 30 ? 75 : 0, stdout: '', stderr: '' };
  };
  const program = { command: ['hook'], user: undefined, timeoutMs: 5_000 } as const;
  return new Hooks(Object.fromEntries(hookNames.map((name) => [name, program])), { run, clock });
}

/** Once well, and then unwell for as long as the gate asks. */
const CHECKS_IN_A_FLAP = 4;

/** The application's health by the first word of the running image. */
function healthProgram(hardware: Hardware): typeof runProgram {
  const { power } = hardware;
  return async (command, _options, signal) => {
    signal.throwIfAborted();
    power.need('run');
    const { running } = hardware;
    if (running.startsWith('stuck')) {
      hardware.wasReset = true;
      power.fail('the watchdog resets the machine');
    }
    if (running.startsWith('hang')) throw new ProgramError('program-timeout', command[0], 'no end');
    if (running.startsWith('flap')) hardware.flaps += 1;
    const isFlapping = running.startsWith('flap') && hardware.flaps % CHECKS_IN_A_FLAP !== 1;
    const isUnwell =
      isFlapping ||
      running.startsWith('bad') ||
      [hardware.board, hardware.app].some(({ running: it }) => it.startsWith('bad'));
    return { exitCode: isUnwell ? 1 : 0, stdout: '', stderr: isUnwell ? 'unwell' : '' };
  };
}
