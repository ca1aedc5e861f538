import type { OnEvent, OperationOutcome } from '../../control/events.ts';
import { adviceForHalfWritten } from '../../control/half-written.ts';
import type { AgentOperations } from '../../control/operations.ts';
import { exitCodes } from '../../system/errors.ts';
import type { Typed } from '../arguments/command.ts';
import type { CliContext } from '../context.ts';
import { Detached, LeftHalfWritten } from '../interruption.ts';
import { renderOutcome } from '../screen/pages/render-reports.ts';
import { openProgressView } from '../screen/progress-view.ts';
import { tell } from './tell.ts';
import { withAgent } from './with-agent.ts';

/** An operation that takes its time. */
export interface FollowedWork {
  readonly begin: (agent: AgentOperations, onEvent: OnEvent) => Promise<OperationOutcome>;
  /** A board that an interruption leaves half written is finished by hand, too. */
  readonly isByHand?: boolean;
  /** A rollback that was asked for is a success, one that happened instead of an update is not. */
  readonly isRollback?: boolean;
}

/** Runs a long operation, shows it, and tells how it ended; resolves with the exit code. */
export async function follow(work: FollowedWork, typed: Typed, context: CliContext): Promise<number> {
  const outcome = await run(work, typed.json, context);
  const value = { kind: 'result', outcome };
  const exitCode = tell(value, (page) => renderOutcome(outcome, typed.flags.has('force'), page), typed, context);
  if (outcome.kind === 'held-back') return exitCodes.refused;
  return goesBack(outcome) && work.isRollback !== true ? exitCodes.failed : exitCode;
}

function goesBack(outcome: OperationOutcome): boolean {
  return outcome.kind === 'rolled-back' || (outcome.kind === 'rebooting' && outcome.goesBack === true);
}

async function run(
  { begin, isByHand = false }: FollowedWork,
  json: boolean,
  context: CliContext,
): Promise<OperationOutcome> {
  return withAgent(context, async (agent, worker) => {
    await using view = openProgressView(context, json);
    try {
      if (worker === 'daemon') return await begin(agent, view.show);
      using guard = guardWriting(context);
      return await begin(agent, (event) => {
        guard.note(event);
        view.show(event);
      });
    } catch (error) {
      if (error !== context.signal.reason) throw error;
      if (worker === 'daemon') throw new Detached();
      throw (await leftBehind(agent, isByHand)) ?? error;
    }
  });
}

/** Nobody else would go on with it: Ctrl-C is asked about while a board is being written. */
function guardWriting(context: CliContext): Disposable & { readonly note: OnEvent } {
  let board: string | undefined;
  let isAsked = false;
  const guard = context.guard(() => {
    if (board === undefined || isAsked) return false;
    isAsked = true;
    context.err.write(`agent: ${board} is being written; Ctrl-C again leaves it half written, without a program\n`);
    return true;
  });
  return {
    note: (event) => {
      board = event.kind === 'board' && event.step === 'writing' ? event.board : undefined;
    },
    [Symbol.dispose]: () => guard[Symbol.dispose](),
  };
}

/** A look at the disk, which an interrupted person waits for no longer. */
const maxLookMs = 5_000;

/** What the interruption is to be told as; undefined: as nothing else. */
async function leftBehind(agent: AgentOperations, isByHand: boolean): Promise<LeftHalfWritten | undefined> {
  const { boards } = await agent.boards({}, AbortSignal.timeout(maxLookMs));
  const half = boards.filter(({ writing }) => writing !== undefined);
  const [first] = half;
  if (first === undefined) return undefined;
  const advice = isByHand ? adviceForHalfWritten(first) : 'agent --update-now goes on with it';
  return new LeftHalfWritten(
    half.map(({ name }) => name),
    advice,
  );
}
