import { constants } from 'node:fs';
import { access } from 'node:fs/promises';

import type { Config } from '../../config/config.ts';
import { PACKAGE_GUARD, requireInstaller } from '../../package/installer-client.ts';
import { checkBootStorage } from '../../slots/bootloaders/create-bootloader.ts';
import { realSystem } from '../../slots/device-identity.ts';
import { slotError } from '../../slots/errors.ts';
import { checkSlot } from '../../slots/slot-checks.ts';
import { mapError } from '../../system/errors.ts';
import { runProgram } from '../../system/processes/child-process.ts';
import { isSystemdRunning } from '../../system/processes/unit-state.ts';
import { readKernelText } from '../../telemetry/sources/kernel/kernel-file.ts';
import type { Bootloader } from '../../update/ports.ts';
import { otherSlot } from '../../update/slot.ts';
import { hasBootloader, otherSlots } from '../wiring/settings.ts';
import type { Wiring } from '../wiring/wiring.ts';
import type { Checks, Warning } from './findings.ts';
import { noTargetsError } from './preconditions.ts';
import { testTrialTimer } from './trial-timer.ts';

const NO_SLOTS = 'not needed: no slots are configured';

/** The part of the engine that is checked. */
interface ExaminedEngine {
  readonly config: Targets;
  readonly bootloader: Bootloader | undefined;
  readonly journal?: Pick<Wiring['journal'], 'state'>;
  /** The socket of the package installer. Default: the system's. */
  readonly packageGuard?: string;
}

type Targets = Pick<Config, 'targets'>;

/** The checks that need the rights of root. */
export const engineChecks: Checks<ExaminedEngine> = {
  'boot environment': checkBootEnvironment,
  'staging slot': checkStagingSlot,
  'fallback slot': checkFallbackSlot,
  'trial timer': checkTrialTimer,
  'package installer': checkPackageInstaller,
};

async function checkBootEnvironment(
  { bootloader, config }: ExaminedEngine,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (bootloader === undefined) return withoutSlots(config);
  const where = await readAsBootloader(config, signal);
  const booted = await bootloader.bootedSlot(signal);
  await bootloader.canary(signal);
  const { primary } = await bootloader.inspect(signal);
  return `slot ${booted} runs, slot ${primary} boots next; ${canWrite(config)}${where}`;
}

/** Reports whether the environment is writable. A handler is not called: it has no write without a change. */
function canWrite({ targets }: Targets): string {
  const isHandler = targets.find(hasBootloader)?.bootloader.kind === 'custom';
  return isHandler
    ? 'its handler responds; only an update shows whether it can write'
    : 'the environment can be written';
}

/** The finding for a gateway that only has boards. Throws if it has no targets at all. */
function withoutSlots(config: Targets): string | undefined {
  if (config.targets.length === 0) throw noTargetsError();
  return hasPackages(config) ? undefined : NO_SLOTS;
}

function hasPackages({ targets }: Targets): boolean {
  return targets.some(({ kind }) => kind === 'package');
}

/** Checks that the bootloader reads what is written to the environment. */
async function readAsBootloader({ targets }: Targets, signal: AbortSignal): Promise<string> {
  const target = targets.find(hasBootloader);
  if (target === undefined) return '';
  const { detail, weakness } = await checkBootStorage(target.bootloader, { run: runProgram }, signal);
  const found = [detail, weakness].filter((text) => text !== undefined).join('; ');
  return found === '' ? '' : ` (${found})`;
}

async function checkStagingSlot(
  { bootloader, config }: ExaminedEngine,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (bootloader === undefined) return undefined;
  const booted = await bootloader.bootedSlot(signal);
  const slot = otherSlot(booted);
  const found: string[] = [];
  for (const target of config.targets) {
    if (target.kind !== 'slots') continue;
    const { slots } = target;
    const others = otherSlots(config, target);
    const admission = { slot, slots, others, booted, sizeBytes: undefined };
    const { where, path, capacityBytes } = await checkSlot(admission, realSystem);
    await mapError(access(path, constants.W_OK), (error) => slotError(where, 'open it for writing', error));
    found.push(`${where} can be written, ${Math.floor(capacityBytes / 1024 / 1024)} MiB`);
  }
  return found.join('; ');
}

/** Checks that the gateway can fall back to the other slot. */
async function checkFallbackSlot(
  { bootloader, journal }: ExaminedEngine,
  signal: AbortSignal,
): Promise<string | Warning | undefined> {
  if (bootloader === undefined) return undefined;
  const booted = await bootloader.bootedSlot(signal);
  const fallback = otherSlot(booted);
  const phase = journal?.state.phase;
  if (phase?.kind === 'staged' || phase?.kind === 'trial') {
    const { attempt, slot } = phase;
    const what = attempt.by === 'rollback' ? `the rollback to ${attempt.version.name}` : attempt.version.name;
    if (slot === fallback) return `slot ${booted} becomes the fallback when ${what} boots in slot ${slot}`;
  }
  const { slots } = await bootloader.inspect(signal);
  if (slots[fallback].bootable) return `slot ${fallback}`;
  if (phase?.kind === 'staging')
    return `none until ${phase.attempt.version.name}, which is being written to slot ${fallback}, boots`;
  return {
    detail: `none: slot ${fallback} is not bootable, so the gateway does not boot if slot ${booted} fails`,
    advice: 'install a release: it goes into the other slot, and this one becomes the fallback',
  };
}

/** Checks that the trial timer's service can be started, which only root may do. */
async function checkTrialTimer(
  { bootloader, config }: ExaminedEngine,
  signal: AbortSignal,
): Promise<string | Warning | undefined> {
  if (bootloader !== undefined) return testTrialTimer(signal);
  return hasPackages(config) ? undefined : NO_SLOTS;
}

async function checkPackageInstaller({
  bootloader,
  config,
  packageGuard = PACKAGE_GUARD,
}: ExaminedEngine): Promise<string | undefined> {
  if (bootloader !== undefined || !hasPackages(config)) return undefined;
  await requireInstaller(packageGuard);
  return `started by ${packageGuard}`;
}

/** Source: Linux Documentation/ABI/testing/sysfs-class-watchdog. systemd feeds this one by default. */
const WATCHDOG = '/sys/class/watchdog/watchdog0';
const DEADLINE_MS = 10_000;
const STAYS = 'a slot that hangs before the agent starts stays';
const SET_IT =
  'set RuntimeWatchdogSec=14s in /etc/systemd/system.conf, in the image too (a Raspberry Pi accepts at most 15 s)';

/** The identity of `softdog`, a timer of the kernel. Source: drivers/watchdog/softdog.c of Linux. */
const SOFTDOG = 'Software Watchdog';

interface WatchdogFacts {
  /** Omitted if the kernel has no watchdog that reports its state. */
  readonly state: string | undefined;
  /** The timeout in effect, in seconds. */
  readonly timeout: string | undefined;
  /** RuntimeWatchdogUSec of systemd, such as `30s`; `0` or empty if it is not set. */
  readonly requested: string;
  /** The name of the device, by its driver. */
  readonly identity?: string | undefined;
}

/** Reads the state of the hardware watchdog, and systemd's request. */
export async function readWatchdog(signal: AbortSignal): Promise<WatchdogFacts> {
  const show = ['systemctl', 'show', '--property=RuntimeWatchdogUSec', '--value'] as const;
  const state = await readKernelText(`${WATCHDOG}/state`, signal);
  if (state === undefined) return { state, timeout: undefined, requested: '' };
  const timeout = await readKernelText(`${WATCHDOG}/timeout`, signal);
  const identity = await readKernelText(`${WATCHDOG}/identity`, signal);
  if (!isSystemdRunning()) return { state, timeout, requested: '', identity };
  const { stdout } = await runProgram(show, { timeoutMs: DEADLINE_MS }, signal);
  return { state, timeout, requested: stdout.trim(), identity };
}

/** Checks that the watchdog is in use: a driver may refuse the timeout that systemd requests. Pure. */
export function examineWatchdog({ state, timeout, requested, identity }: WatchdogFacts): string | Warning {
  if (state === undefined) {
    const advice = 'if the hardware has a watchdog, load its driver in the image';
    return { detail: `this machine reports no hardware watchdog: ${STAYS}`, advice };
  }
  if (state === 'active' && identity === SOFTDOG)
    return {
      detail: 'active, but a software watchdog does not restart a gateway whose kernel hangs',
      advice: 'if the hardware has a watchdog, load its driver in the image instead of softdog',
    };
  if (state === 'active') return `active, with a timeout of ${timeout ?? 'unknown'} s`;
  if (requested === '' || requested === '0') return { detail: `not in use (${state}): ${STAYS}`, advice: SET_IT };
  const detail = `not in use (${state}) although RuntimeWatchdogSec is ${requested}: the driver may refuse that timeout; ${STAYS}`;
  return { detail, advice: `${SET_IT}; journalctl -b | grep -i watchdog` };
}
