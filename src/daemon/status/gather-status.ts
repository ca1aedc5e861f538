import type { StatusReport } from '../../control/reports.ts';
import { AgentError, describeError } from '../../system/errors.ts';
import { maskAddresses } from '../../system/log/secrets.ts';
import type { BootState, SlotName } from '../../update/ports.ts';
import type { AgentDeps } from '../agent.ts';
import { lookAtConfig, noTargetsError } from '../doctor/preconditions.ts';
import { statePermissionWarnings, stateBlocker } from '../doctor/state-directory.ts';
import { showPackages } from '../packages.ts';
import type { TrustWarning } from '../wiring/trust.ts';
import type { Wiring } from '../wiring/wiring.ts';
import { brokerStatus, statusReport } from './status-report.ts';
import type { StatusInput } from './status-report.ts';

/** Gathers the parts of `agent status` from the gateway. It always responds, whatever fails. */
export async function gatherStatus(deps: AgentDeps, signal: AbortSignal): Promise<StatusReport> {
  const wiring = deps.wiring();
  const { session, updater, journal, world, config, messaging, throttle, trust } = wiring;
  const { boot, concerns, ...obstacles } = await findBlockers(deps, wiring, signal);
  const { trouble, change } = await lookAtConfig(deps.readAgain);
  const warnings = await warningsOf(deps, wiring, concerns);
  const ofConfig = [trouble, change].filter((said) => said !== undefined);
  const unsaid = ofConfig.filter((said) => !warnings.some((one) => one.includes(said)));
  return statusReport(journal.state, {
    asItIs: await copiedFields(deps, wiring, [...unsaid, ...warnings], signal),
    daemon: deps.daemon,
    booted: boot.booted,
    boot: boot.state,
    activity: deps.activity?.(),
    throttle: throttle?.inForce,
    attempts: await wiring.history.known(journal.state),
    rebootDeferral: updater?.rebootWait,
    hookPause: updater?.hookPause,
    lastLook: updater?.lastLook,
    keyNames: await trust.keyNames(signal),
    listNumber: await trust.listInEffect(),
    nowMs: world.clock.nowMs(),
    quarantineMs: config.update.quarantineMs,
    ...obstacles,
    checks: deps.looks(),
    isConfigUnusable: trouble !== undefined,
    distrust: concerns.flatMap(({ trouble }) => trouble ?? []),
    service: { url: maskAddresses(config.service.url), ...session.contact, ...brokerStatus(messaging?.report) },
  });
}

/** Returns the reason why nothing can be updated: the cause, without its consequences. */
async function findBlockers(deps: AgentDeps, wiring: Wiring, signal: AbortSignal) {
  const { journal, config, updater, trust } = wiring;
  const boot = await readBootloader(wiring, signal);
  const stateTrouble = await stateBlocker(config, journal, deps.daemon === true);
  return {
    boot,
    canUpdate: boot.works && stateTrouble === undefined,
    obstacle: boot.obstacle ?? stateTrouble,
    concerns: updater === undefined ? [] : await trust.concerns(journal.state, signal),
  };
}

async function copiedFields(
  deps: AgentDeps,
  wiring: Wiring,
  warnings: readonly string[],
  signal: AbortSignal,
): Promise<StatusInput['asItIs']> {
  const packages = await showPackages(wiring, signal);
  const traffic = deps.daemon === true ? wiring.traffic.report : undefined;
  return {
    agentVersion: wiring.world.agentVersion,
    ...(wiring.config.device.label !== undefined && { label: wiring.config.device.label }),
    serialNumber: wiring.serialNumber,
    thingId: await loadThingId(wiring),
    boards: await wiring.boards.show(),
    ...(packages.length > 0 && { packages: [...packages] }),
    traffic,
    written: traffic && storageWrites(traffic.measuredMs),
    warnings,
    telemetry: deps.telemetry?.()?.status(),
  };
}

/** Returns the kernel's count (getrusage(2), ru_oublock); undefined while it is zero, since not every kernel counts. */
function storageWrites(measuredMs: number): StatusReport['written'] {
  const bytes = process.resourceUsage().fsWrite * 512;
  return bytes === 0 ? undefined : { bytes, measuredMs };
}

async function warningsOf(
  deps: AgentDeps,
  { config, updater }: Wiring,
  ofTrust: readonly TrustWarning[],
): Promise<readonly string[]> {
  return [
    ...deps.warnings(),
    ...ofTrust.map(({ text }) => text),
    ...(await statePermissionWarnings(config)),
    ...(updater?.hookTroubles ?? []),
  ];
}

/** The thing's id from the state directory; undefined if it cannot be read, so that `status` always answers. */
async function loadThingId({ identities }: Wiring): Promise<string | undefined> {
  try {
    return (await identities.load())?.thingId;
  } catch (error) {
    if (error instanceof AgentError) return undefined;
    throw error;
  }
}

/** The state of the bootloader. Its failure is part of the answer, so that `status` always answers. */
async function readBootloader(
  { bootloader, updater }: Wiring,
  signal: AbortSignal,
): Promise<{
  readonly booted: SlotName | undefined;
  readonly state: BootState | undefined;
  readonly obstacle: string | undefined;
  /** False: the bootloader fails. */
  readonly works: boolean;
}> {
  const nothing = updater === undefined ? noTargetsError().message : undefined;
  if (bootloader === undefined) return { booted: undefined, state: undefined, obstacle: nothing, works: true };
  try {
    const booted = await bootloader.bootedSlot(signal);
    return { booted, state: await bootloader.inspect(signal), obstacle: undefined, works: true };
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    return { booted: undefined, state: undefined, obstacle: describeError(error), works: false };
  }
}
