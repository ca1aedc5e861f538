import { AgentError } from '../../system/errors.ts';
import type { Log } from '../../system/log/log.ts';
import type { TellHook } from '../hooks/hooks.ts';
import type { ProvisioningService } from '../ports.ts';
import type { UpdateProgress } from '../progress.ts';
import type { Journal } from './journal.ts';
import { nameToSwitchTo } from './naming.ts';

export interface OutboxPorts {
  readonly journal: Journal;
  readonly service: Pick<ProvisioningService, 'switchTo' | 'setProperty'>;
  /** The property that receives outcomes; undefined: they are not reported. */
  readonly outcomeProperty: string | undefined;
  /** The property that says which versions are wanted whole; undefined, or not given: none does. */
  readonly wholeImageProperty?: string | undefined;
  readonly log: Log;
  /** Undefined: there is no program to be told. */
  readonly tellHook?: TellHook | undefined;
  readonly onProgress: (event: UpdateProgress) => void;
}

/**
 * Tells the service what it does not know yet: the version that was committed, and how attempts ended. Each is kept
 * until the service took it; a refusal of one does not stop the other. Returns the first failure. A program of the gateway
 * is told first.
 */
export async function deliverOutbox(ports: OutboxPorts, signal: AbortSignal): Promise<AgentError | undefined> {
  await attempt('that a hook was told', () => deliverHook(ports, signal), ports);
  const failures = [
    await attempt('the switch', () => deliverSwitch(ports, signal), ports),
    await attempt('an outcome', () => deliverReports(ports, signal), ports),
    await attempt('which versions are wanted whole', () => deliverUnfit(ports, signal), ports),
  ];
  return failures.find((failure) => failure !== undefined);
}

async function attempt(
  what: string,
  action: () => Promise<void>,
  { log }: OutboxPorts,
): Promise<AgentError | undefined> {
  try {
    await action();
    return undefined;
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    log.warn({ code: error.code }, `${what} is kept for later: ${error.message}`);
    return error;
  }
}

/** What it makes of that changes nothing here; it is told again where it was cut off. */
async function deliverHook({ journal, tellHook, log }: OutboxPorts, signal: AbortSignal): Promise<void> {
  const { owedHook: owed, installed } = journal.state;
  if (owed === undefined) return;
  const trouble = await tellHook?.(owed, installed, signal);
  if (trouble !== undefined) log.warn({ hook: owed.hook }, trouble);
  await journal.append({ type: 'hook-told', attemptId: owed.attempt });
}

async function deliverSwitch({ journal, service, onProgress }: OutboxPorts, signal: AbortSignal): Promise<void> {
  const versionId = journal.state.pendingSwitch;
  if (versionId === undefined) return;
  onProgress({ kind: 'phase', phase: 'switching', detail: nameToSwitchTo(journal.state) });
  await service.switchTo(versionId, signal);
  await journal.append({ type: 'switched', versionId });
}

async function deliverReports(ports: OutboxPorts, signal: AbortSignal): Promise<void> {
  const { journal, service, outcomeProperty } = ports;
  for (const report of journal.state.reports) {
    if (outcomeProperty !== undefined) await service.setProperty(outcomeProperty, report, signal);
    await journal.append({ type: 'reported', attemptId: report.attempt });
  }
}

/** Not each delta fits each gateway: the service may answer the same version with the whole image then. */
async function deliverUnfit(ports: OutboxPorts, signal: AbortSignal): Promise<void> {
  const { journal, service, wholeImageProperty } = ports;
  const { unfit } = journal.state;
  if (wholeImageProperty === undefined || unfit === undefined || unfit.told) return;
  await service.setProperty(wholeImageProperty, { versions: unfit.versions }, signal);
  await journal.append({ type: 'whole-wanted' });
}
