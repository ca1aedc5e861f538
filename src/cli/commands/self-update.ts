import { ReportedFailure } from '../../control/control-errors.ts';
import type { OnEvent, OperationEvent, OperationOutcome } from '../../control/events.ts';
import type { HistoryReport } from '../../control/history.ts';
import type { AgentOperations } from '../../control/operations.ts';
import { AgentError } from '../../system/errors.ts';
import type { CliContext } from '../context.ts';

/** The agent's own package is exchanged like any other: its scripts end the daemon that a command follows. */

/** The steps of a package in which its scripts run; a board has none of these names. */
export const packageSteps: ReadonlySet<string> = new Set(['installing', 'restoring']);

/** The codes of a command whose daemon goes away. */
const goneCodes: ReadonlySet<string> = new Set(['agent-stopping', 'daemon-lost', 'daemon-unresponsive']);

/** Between two questions. */
const PAUSE_MS = 2_000;
/** By default the guard puts back a package, in which no agent comes up, after ten minutes and what dpkg takes twice. */
const MAX_WAIT_MS = 60 * 60_000;

type Attempt = HistoryReport['attempts'][number];

/**
 * Begins an operation of the daemon. Where that goes away while it exchanges a package, the next daemon is asked how the
 * attempt ended. Throws the error of the daemon that went away if no other one knows that in time.
 */
export async function followAcrossUpgrade(
  begin: (onEvent: OnEvent) => Promise<OperationOutcome>,
  onEvent: OnEvent,
  daemon: AgentOperations,
  wait: { readonly context: CliContext; readonly onWait: () => void },
): Promise<OperationOutcome> {
  const exchange = new UpgradeWatcher(daemon, wait.context.signal);
  try {
    return await begin((event) => {
      exchange.note(event);
      onEvent(event);
    });
  } catch (error) {
    if (!exchange.isOn || !(error instanceof AgentError) || !goneCodes.has(error.code)) throw error;
    wait.onWait();
    const attempt = await awaitEnd(await exchange.attempt, wait.context);
    if (attempt === undefined) throw error;
    return outcomeOf(attempt);
  }
}

/** Whether a package is being exchanged, and by which attempt. */
class UpgradeWatcher {
  readonly #daemon: AgentOperations;
  readonly #signal: AbortSignal;
  /** Its id; undefined: it is not known. */
  attempt: Promise<string | undefined> | undefined;
  isOn = false;

  constructor(daemon: AgentOperations, signal: AbortSignal) {
    this.#daemon = daemon;
    this.#signal = signal;
  }

  note(event: OperationEvent): void {
    if (event.kind === 'phase') this.isOn = false;
    if (event.kind !== 'board') return;
    this.isOn = packageSteps.has(event.step);
    if (this.isOn) this.attempt ??= this.#find();
  }

  async #find(): Promise<string | undefined> {
    return (await attemptsOf(async () => this.#daemon, this.#signal))?.find(({ inProgress }) => inProgress)?.attempt;
  }
}

/** Asks again and again; undefined: nobody says how the attempt ended. */
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
 * The attempts in the history, since that of another version can be understood, too. Undefined: no agent answers, or not
 * so that it can be understood.
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

/** Throws for an attempt that failed: also for a way back that a person asked for, and that was not kept. */
function outcomeOf({ version, by, outcome, code, reason = 'nobody said why' }: Attempt): OperationOutcome {
  if (outcome === 'installed') return { kind: 'installed', version };
  if (outcome === 'rolled-back' && by !== 'rollback') return { kind: 'rolled-back', version, reason };
  throw new ReportedFailure({
    code: code ?? 'failed',
    message: `${version}: ${reason}`,
    exit: outcome === 'refused' ? 'refused' : 'failed',
    advice: 'agent log last',
  });
}
