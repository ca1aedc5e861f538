import type { StatusReport } from '../../control/reports.ts';
import { AgentError, describeError, valueOrError } from '../../system/errors.ts';
import { maskAddresses } from '../../system/log/secrets.ts';
import type { Bootloader, BootState, SlotName } from '../../update/ports.ts';
import type { AgentDeps } from '../agent.ts';
import { checkLoadedConfig, noTargetsError } from '../doctor/preconditions.ts';
import { statePermissionWarnings, stateBlocker } from '../doctor/state-directory.ts';
import { showPackages } from '../packages.ts';
import type { Wiring } from '../wiring/wiring.ts';
import { brokerStatus, statusReport } from './status-report.ts';

/** Gathers the parts of `agent status` from the gateway. It always responds, whatever fails. */
export async function gatherStatus(deps: AgentDeps, signal: AbortSignal): Promise<StatusReport> {
  const input = await gatherInput(deps, signal);
  return statusReport(deps.wiring().journal.state, input);
}

/** The part of the status that is not in the journal: known only to a running process. */
export type StatusInput = Awaited<ReturnType<typeof gatherInput>>;

async function gatherInput(deps: AgentDeps, signal: AbortSignal) {
  const wiring = deps.wiring();
  const { bootloader, config, journal, messaging, session, trust, updater } = wiring;
  const { hookTroubles = [], hookPause, lastLook, rebootWait } = updater ?? {};
  const boot = await readBootloader(bootloader, signal);
  const stateTrouble = await stateBlocker(config, journal, deps.daemon === true);
  const concerns = updater === undefined ? [] : await trust.concerns(journal.state, signal);
  const { trouble, change } = await checkLoadedConfig(deps.readAgain);
  const ofTrust = concerns.map(({ text }) => text);
  const warnings = [...deps.warnings(), ...ofTrust, ...(await statePermissionWarnings(config)), ...hookTroubles];
  const isNews = (text: string): boolean => !warnings.some((known) => known.includes(text));
  const ofConfig = [trouble, change].filter((text) => text !== undefined).filter(isNews);
  return {
    /** Values that are reported unchanged. */
    asItIs: await copiedFields(deps, wiring, [...ofConfig, ...warnings], signal),
    daemon: deps.daemon,
    /** Absent if the gateway has no slots, or if the bootloader fails, which is then the obstacle. */
    booted: boot.booted,
    boot: boot.state,
    /** False: the bootloader or the state directory fails. */
    canUpdate: (boot.trouble ?? stateTrouble) === undefined,
    /** The reason why nothing can be updated: the cause, without its consequences. */
    obstacle: boot.trouble ?? (updater === undefined ? noTargetsError().message : stateTrouble),
    activity: deps.activity?.(),
    throttle: wiring.throttle?.inForce,
    attempts: await wiring.history.known(journal.state),
    rebootDeferral: rebootWait,
    hookPause,
    lastLook,
    keyNames: await keyNamesFor(wiring, signal),
    listNumber: await trust.listInEffect(),
    nowMs: wiring.world.clock.nowMs(),
    quarantineMs: config.update.quarantineMs,
    checks: deps.looks?.(),
    isConfigUnusable: trouble !== undefined,
    distrust: concerns.flatMap((concern) => concern.trouble ?? []),
    service: { url: maskAddresses(config.service.url), ...session.contact, ...brokerStatus(messaging?.report) },
  };
}

/** Returns the names of the trusted keys if one of them signed the installed release; to read them takes time. */
async function keyNamesFor({ journal, trust }: Wiring, signal: AbortSignal) {
  return journal.state.installed?.signedBy === undefined ? undefined : trust.keyNames(signal);
}

/** Reads the state of the bootloader, or its trouble. */
async function readBootloader(
  bootloader: Bootloader | undefined,
  signal: AbortSignal,
): Promise<{ readonly booted?: SlotName; readonly state?: BootState; readonly trouble?: string }> {
  if (bootloader === undefined) return {};
  const read = async (): Promise<{ booted: SlotName; state: BootState }> => {
    return { booted: await bootloader.bootedSlot(signal), state: await bootloader.inspect(signal) };
  };
  const found = await valueOrError(read());
  return found instanceof AgentError ? { trouble: describeError(found) } : found;
}

async function copiedFields(deps: AgentDeps, wiring: Wiring, warnings: readonly string[], signal: AbortSignal) {
  const identity = await valueOrError(wiring.identities.load());
  const packages = await showPackages(wiring, signal);
  const traffic = deps.daemon === true ? wiring.traffic.report : undefined;
  return {
    agentVersion: wiring.world.agentVersion,
    ...(wiring.config.device.label !== undefined && { label: wiring.config.device.label }),
    serialNumber: wiring.serialNumber,
    thingId: identity instanceof AgentError ? undefined : identity?.thingId,
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
