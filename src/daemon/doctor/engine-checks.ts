import { constants } from 'node:fs';
import { access } from 'node:fs/promises';

import type { Config } from '../../config/config.ts';
import type { DoctorFinding } from '../../control/reports.ts';
import { PACKAGE_GUARD, requireInstaller } from '../../package/installer-client.ts';
import { checkBootStorage } from '../../slots/bootloaders/create-bootloader.ts';
import { realSystem } from '../../slots/device-identity.ts';
import { slotError } from '../../slots/errors.ts';
import { checkSlot } from '../../slots/slot-checks.ts';
import { runProgram } from '../../system/processes/child-process.ts';
import type { Bootloader } from '../../update/ports.ts';
import { otherSlot } from '../../update/slot.ts';
import { hasBootloader, otherSlots } from '../wiring/slot-settings.ts';
import type { Wiring } from '../wiring/wiring.ts';
import { finding } from './finding.ts';
import type { Warning } from './finding.ts';
import { noTargetsError } from './preconditions.ts';
import { testTrialTimer } from './trial-timer.ts';

const NO_SLOTS = 'not needed: no slots are configured';

/** The part of the engine that is checked. */
export interface ExaminedEngine {
  readonly config: Targets;
  readonly bootloader: Bootloader | undefined;
  readonly journal?: Pick<Wiring['journal'], 'state'>;
  /** The socket of the package installer. Default: the system's. */
  readonly packageGuard?: string;
}

type Targets = Pick<Config, 'targets'>;

interface Check {
  readonly name: string;
  readonly look: (engine: ExaminedEngine, signal: AbortSignal) => Promise<string | Warning | undefined>;
}

const checks: readonly Check[] = [
  { name: 'boot environment', look: lookAtBootEnvironment },
  { name: 'staging slot', look: lookAtStagingSlot },
  { name: 'fallback slot', look: lookAtFallbackSlot },
  { name: 'trial timer', look: lookAtTrialTimer },
  { name: 'package installer', look: lookAtPackageInstaller },
];

/** Runs the checks that need the rights of root. */
export async function examineEngine(engine: ExaminedEngine, signal: AbortSignal): Promise<readonly DoctorFinding[]> {
  const findings: DoctorFinding[] = [];
  for (const { name, look } of checks) {
    const found = await finding(name, async () => look(engine, signal));
    if (found !== undefined) findings.push(found);
  }
  return findings;
}

async function lookAtBootEnvironment(
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
    ? 'its handler answers; whether it can write, only an update shows'
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

async function lookAtStagingSlot(
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
    await refuseUnwritable(where, path);
    found.push(`${where} can be written, ${Math.floor(capacityBytes / 1024 / 1024)} MiB`);
  }
  return found.join('; ');
}

/** Checks that the gateway can fall back to the other slot. */
async function lookAtFallbackSlot(
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
  return {
    detail: `none: slot ${fallback} is not bootable, so the gateway does not boot if slot ${booted} fails`,
    advice: 'install a release: it goes into the other slot, and this one becomes the fallback',
  };
}

/** Checks that the trial timer's service can be started, which only root may do. */
async function lookAtTrialTimer(
  { bootloader, config }: ExaminedEngine,
  signal: AbortSignal,
): Promise<string | Warning | undefined> {
  if (bootloader !== undefined) return testTrialTimer(signal);
  return hasPackages(config) ? undefined : NO_SLOTS;
}

async function lookAtPackageInstaller({
  bootloader,
  config,
  packageGuard = PACKAGE_GUARD,
}: ExaminedEngine): Promise<string | undefined> {
  if (bootloader !== undefined || !hasPackages(config)) return undefined;
  await requireInstaller(packageGuard);
  return `started by ${packageGuard}`;
}

/** Refuses a file that stands for a slot where this process may not write. */
async function refuseUnwritable(where: string, path: string): Promise<void> {
  try {
    await access(path, constants.W_OK);
  } catch (error) {
    throw slotError(where, 'open it for writing', error);
  }
}
