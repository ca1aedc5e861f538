import { callOperation } from '../../control/api/call-operation.ts';
import type { OnEvent, OperationOutcome } from '../../control/events.ts';
import type { LongOperationName } from '../../control/long-operations.ts';
import type { AgentOperations, InputOf } from '../../control/operations.ts';
import { partialFlashAdvice } from '../../control/partial-flash.ts';
import { exitCodes } from '../../system/errors.ts';
import type { OpenedFile } from '../../system/files/opened-file.ts';
import type { ParsedCommand } from '../arguments/command.ts';
import type { CliContext } from '../context.ts';
import { DetachedError, PartialFlashError } from '../interruption.ts';
import { renderParagraph } from '../screen/layout.ts';
import { pageFor } from '../screen/page.ts';
import { renderOutcome } from '../screen/pages/render-reports.ts';
import { openProgressView } from '../screen/progress-view.ts';
import { printResult } from './print.ts';
import { followAcrossUpgrade } from './self-update.ts';
import { withAgent } from './with-agent.ts';

/** A long operation and its input. */
type FollowedOperation = {
  [Name in LongOperationName]: { readonly name: Name; readonly input: InputOf<Name> };
}[LongOperationName];

/**
 * Runs a long operation, shows its progress and prints its result. Resolves with the exit code. The daemon can only
 * continue on its own once it has the complete `file` of the input. A requested rollback is a success; a rollback that
 * ends an update is a failure.
 */
export async function follow(
  work: FollowedOperation,
  typed: ParsedCommand,
  context: CliContext,
  file?: OpenedFile,
): Promise<number> {
  const outcome = await run(work, file, typed.json, context);
  const value = { kind: 'result', outcome };
  const exitCode = printResult(value, (page) => renderOutcome(outcome, typed.flags.has('force'), page), typed, context);
  if (file !== undefined && outcome.kind === 'rebooting' && outcome.goesBack === true && !typed.json)
    context.err.write(renderParagraph(notInstalled, pageFor(context.err, context)));
  if (outcome.kind === 'deferred') return exitCodes.refused;
  return isRollback(outcome) && work.name !== 'rollback' ? exitCodes.failed : exitCode;
}

const notInstalled = 'The file was not installed: after the reboot, run the same command again.';

function isRollback(outcome: OperationOutcome): boolean {
  return outcome.kind === 'rolled-back' || (outcome.kind === 'rebooting' && outcome.goesBack === true);
}

async function run(
  { name, input }: FollowedOperation,
  file: OpenedFile | undefined,
  json: boolean,
  context: CliContext,
): Promise<OperationOutcome> {
  return withAgent(context, async (agent, worker) => {
    await using view = openProgressView(context, json);
    const begin = async (onEvent: OnEvent): Promise<OperationOutcome> =>
      callOperation(agent, name, input, onEvent, context.signal);
    try {
      if (worker === 'daemon') {
        const onWait = (): void => printWaitHint(json, context);
        return await followAcrossUpgrade(begin, view.show, agent, { context, onWait });
      }
      using guard = confirmInterrupt(context);
      return await begin((event) => {
        guard.note(event);
        view.show(event);
      });
    } catch (error) {
      if (error !== context.signal.reason) throw error;
      if (worker === 'daemon' && file?.isRead === false) throw error;
      if (worker === 'daemon') throw new DetachedError();
      throw (await partialFlashError(agent, name)) ?? error;
    }
  });
}

function printWaitHint(json: boolean, context: CliContext): void {
  const text = 'the agent itself is being upgraded; waiting for the new version';
  if (!json) context.err.write(renderParagraph(text, pageFor(context.err, context)));
}

/** Asks for confirmation of Ctrl-C while a board is being flashed, since no daemon would finish the board. */
function confirmInterrupt(context: CliContext): Disposable & { readonly note: OnEvent } {
  let board: string | undefined;
  let isAsked = false;
  const guard = context.guard(() => {
    if (board === undefined || isAsked) return false;
    isAsked = true;
    context.err.write(
      `agent: ${board} is being flashed; press Ctrl-C again to leave it partially flashed, without a program\n`,
    );
    return true;
  });
  return {
    note: (event) => {
      board = event.kind === 'board' && event.step === 'writing' ? event.board : undefined;
    },
    [Symbol.dispose]: () => guard[Symbol.dispose](),
  };
}

/** Deadline for reading the boards' state after an interruption, before the prompt returns. */
const BOARDS_TIMEOUT_MS = 5_000;

/** Returns the error that names the partially flashed boards, or undefined if there are none. */
async function partialFlashError(
  agent: AgentOperations,
  name: LongOperationName,
): Promise<PartialFlashError | undefined> {
  const { boards } = await agent.boards({}, AbortSignal.timeout(BOARDS_TIMEOUT_MS));
  const half = boards.filter(({ writing }) => writing !== undefined);
  const [first] = half;
  if (first === undefined) return undefined;
  const isManual = name === 'flash' || name === 'restore';
  const advice = isManual ? partialFlashAdvice(first) : 'to finish it: agent --update-now';
  return new PartialFlashError(
    half.map(({ name }) => name),
    advice,
  );
}
