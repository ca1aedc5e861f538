import { ReportedFailure } from '../../control/control-errors.ts';
import type { OnEvent, OperationOutcome } from '../../control/events.ts';
import type { HistoryReport } from '../../control/history.ts';
import type { AgentOperations } from '../../control/operations.ts';
import { AgentError } from '../../system/errors.ts';
import type { CliContext } from '../context.ts';

/** The agent's own package is replaced like any other: its scripts stop the daemon that a command follows. */

/** The steps of a package in which its scripts run. The steps of boards have other names. */
export const packageSteps: ReadonlySet<string> = new Set(['installing', 'restoring']);

/** The error codes of a command whose daemon stops. */
const goneCodes: ReadonlySet<string> = new Set(['agent-stopping', 'daemon-lost', 'daemon-unresponsive']);

const PAUSE_MS = 2_000;
/**
 * By default the package installer restores the previous package if the agent does not start within 10 minutes. dpkg
 * runs twice in addition.
 */
const MAX_WAIT_MS = 60 * 60_000;

type Attempt = HistoryReport['attempts'][number];

/**
 * Runs an operation of the daemon. If the daemon stops while it replaces a package, the next daemon is queried for the
 * result of the attempt. Throws the error of the first daemon if no result is available in time.
 */
export async function followAcrossUpgrade(
  begin: (onEvent: OnEvent) => Promise<OperationOutcome>,
  onEvent: OnEvent,
  daemon: AgentOperations,
  wait: { readonly context: CliContext; readonly onWait: () => void },
): Promise<OperationOutcome> {
  const { signal } = wait.context;
  /** True while a package is being replaced. */
  let isReplacing = false;
  /** The id of the attempt that replaces it, or undefined if it is unknown. */
  let id: Promise<string | undefined> | undefined;
  try {
    return await begin((event) => {
      if (event.kind === 'phase') isReplacing = false;
      if (event.kind === 'board') isReplacing = packageSteps.has(event.step);
      if (isReplacing) id ??= attemptsOf(async () => daemon, signal).then((known) => known?.find(isRunning)?.attempt);
      onEvent(event);
    });
  } catch (error) {
    if (!isReplacing || !(error instanceof AgentError) || !goneCodes.has(error.code)) throw error;
    wait.onWait();
    const attempt = await awaitEnd(await id, wait.context);
    if (attempt === undefined) throw error;
    return outcomeOf(attempt);
  }
}

function isRunning({ inProgress }: Attempt): boolean {
  return inProgress === true;
}

/** Polls until the attempt has a result. Returns undefined if there is none in time. */
async function awaitEnd(known: string | undefined, context: CliContext): Promise<Attempt | undefined> {
  const { clock, signal } = context;
  const connect = async (ending: AbortSignal): ReturnType<CliContext['connect']> => context.connect(ending);
  const endMs = clock.monotonicMs() + MAX_WAIT_MS;
  let id = known;
  while (clock.monotonicMs() < endMs) {
    const attempts = await attemptsOf(connect, signal);
    id ??= attempts?.at(-1)?.attempt;
    const found = attempts?.find(({ attempt }) => attempt === id);
    if (found?.outcome !== undefined) return found;
    await clock.sleep(PAUSE_MS, signal);
  }
  return undefined;
}

/**
 * Returns the attempts in the history, whose format is stable across versions, or undefined if no agent responds with a
 * valid history.
 */
async function attemptsOf(
  connect: CliContext['connect'],
  signal: AbortSignal,
): Promise<readonly Attempt[] | undefined> {
  try {
    const daemon = await connect(signal);
    return (await daemon?.history({}, signal))?.attempts;
  } catch (error) {
    if (error instanceof AgentError || signal.aborted) return undefined;
    throw error;
  }
}

/** Throws for a failed attempt, also for a requested rollback that was not committed. */
function outcomeOf({ version, by, outcome, code, reason = 'unknown reason' }: Attempt): OperationOutcome {
  if (outcome === 'installed') return { kind: 'installed', version };
  if (outcome === 'rolled-back' && by !== 'rollback') return { kind: 'rolled-back', version, reason };
  throw new ReportedFailure({
    code: code ?? 'failed',
    message: `${version}: ${reason}`,
    exit: outcome === 'refused' ? 'refused' : 'failed',
    advice: 'agent log',
  });
}
