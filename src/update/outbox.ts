import { AgentError, valueOrError } from '../system/errors.ts';
import type { NotifyHook } from './hooks/hooks.ts';
import { nameToSwitchTo } from './journal/naming.ts';
import type { UpdatePorts } from './policy/install-request.ts';
import type { ProvisioningService } from './ports.ts';

export interface OutboxPorts extends Pick<UpdatePorts, 'journal' | 'log' | 'onProgress'> {
  readonly service: Pick<ProvisioningService, 'switchTo' | 'setProperty'>;
  /** The property that receives results. Undefined if they are not reported. */
  readonly outcomeProperty: string | undefined;
  /** The property that receives the versions requested as full images, if any. */
  readonly wholeImageProperty?: string | undefined;
  /** Omitted without a program to notify. */
  readonly tellHook?: NotifyHook | undefined;
}

/**
 * Guarantee `one-report`: tells the service the committed version and how attempts ended, and before that a program of
 * the gateway. Each message is kept until the service has accepted it; the refusal of one does not stop the others.
 * Returns the first failure.
 */
export async function deliverOutbox(ports: OutboxPorts, signal: AbortSignal): Promise<AgentError | undefined> {
  await attempt('that a hook was notified', () => deliverHook(ports, signal), ports);
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
  const failure = await valueOrError<unknown>(action());
  if (!(failure instanceof AgentError)) return undefined;
  log.warn({ code: failure.code }, `${what} is kept for later: ${failure.message}`);
  return failure;
}

/**
 * Guarantee `hook-notified`: notifies a program of the gateway. Its result changes nothing; an interrupted notification
 * is repeated.
 */
async function deliverHook({ journal, tellHook, log }: OutboxPorts, signal: AbortSignal): Promise<void> {
  const { owedHook: owed, installed } = journal.state;
  if (owed === undefined) return;
  const trouble = await tellHook?.(owed, installed, signal);
  if (trouble !== undefined) log.warn({ hook: owed.hook }, trouble);
  await journal.append({ type: 'hook-notified', attemptId: owed.attempt });
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

/** Tells the service which deltas did not fit, so that it can answer the same version with the whole image. */
async function deliverUnfit(ports: OutboxPorts, signal: AbortSignal): Promise<void> {
  const { journal, service, wholeImageProperty } = ports;
  const { unfit } = journal.state;
  if (wholeImageProperty === undefined || unfit === undefined || unfit.told) return;
  await service.setProperty(wholeImageProperty, { versions: unfit.versions }, signal);
  await journal.append({ type: 'full-image-requested' });
}
