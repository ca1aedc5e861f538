import { resolve } from 'node:path';

import { adviceForHalfWritten } from '../../control/half-written.ts';
import type { AgentOperations, OnEvent, OperationOutcome } from '../../control/operations.ts';
import { exitCodes } from '../../system/errors.ts';
import type { CliContext } from '../context.ts';
import { Detached, LeftHalfWritten } from '../interruption.ts';
import { pageFor } from '../screen/page.ts';
import { printableJson } from '../screen/printable.ts';
import { openProgressView } from '../screen/progress-view.ts';
import { renderOutcome } from '../screen/render-reports.ts';
import type { OperationCommand } from './command.ts';
import { withAgent } from './with-agent.ts';

/** Runs one of the long operations and shows it. */
export async function runOperation(command: OperationCommand, json: boolean, context: CliContext): Promise<number> {
  const outcome = await withAgent(context, async (agent, worker) => {
    try {
      return worker === 'daemon'
        ? await follow(command, agent, json, context)
        : await workGuarded(command, agent, json, context);
    } catch (error) {
      if (error !== context.signal.reason) throw error;
      if (worker === 'daemon') throw new Detached();
      throw await leftBehind(command, agent, error);
    }
  });
  if (json) context.out.write(`${printableJson({ kind: 'result', outcome })}\n`);
  else context.out.write(renderOutcome(outcome, isForced(command), pageFor(context.out, context)));
  return exitCodeOf(command, outcome);
}

async function follow(
  command: OperationCommand,
  agent: AgentOperations,
  json: boolean,
  context: CliContext,
): Promise<OperationOutcome> {
  await using view = openProgressView(context, json);
  return await begin(command, agent, view.show, context);
}

/** Nobody else would go on with it: Ctrl-C is asked about while a board is being written. */
async function workGuarded(
  command: OperationCommand,
  agent: AgentOperations,
  json: boolean,
  context: CliContext,
): Promise<OperationOutcome> {
  await using view = openProgressView(context, json);
  let board: string | undefined;
  let isAsked = false;
  using _guard = context.guard(() => {
    if (board === undefined || isAsked) return false;
    isAsked = true;
    context.err.write(`agent: ${board} is being written; Ctrl-C again leaves it half written, without a program\n`);
    return true;
  });
  const show: OnEvent = (event) => {
    board = event.kind === 'board' && event.step === 'writing' ? event.board : undefined;
    view.show(event);
  };
  return await begin(command, agent, show, context);
}

/** A look at the disk, which an interrupted person waits for no longer. */
const maxLookMs = 5_000;

/** What the interruption is to be told as. */
async function leftBehind(command: OperationCommand, agent: AgentOperations, interruption: unknown): Promise<unknown> {
  const boards = await agent.boards(AbortSignal.timeout(maxLookMs));
  const half = boards.filter(({ writing }) => writing !== undefined);
  const [first] = half;
  if (first === undefined) return interruption;
  const isByHand = command.name === 'mcu-flash' || command.name === 'mcu-restore';
  const advice = isByHand ? adviceForHalfWritten(first) : 'agent --update-now goes on with it';
  return new LeftHalfWritten(
    half.map(({ name }) => name),
    advice,
  );
}

function begin(
  command: OperationCommand,
  agent: AgentOperations,
  onEvent: OnEvent,
  { directory, signal }: CliContext,
): Promise<OperationOutcome> {
  switch (command.name) {
    case 'update-now':
      return agent.updateNow(command.options, onEvent, signal);
    case 'install':
      return agent.install(resolve(directory, command.path), command.options, onEvent, signal);
    case 'rollback':
      return agent.rollback(command.options, onEvent, signal);
    case 'commit':
      return agent.commit(onEvent, signal);
    case 'cancel':
      return agent.cancel(onEvent, signal);
    case 'mcu-flash':
      return agent.flashBoard({ name: command.board, path: resolve(directory, command.path) }, onEvent, signal);
    case 'mcu-restore':
      return agent.restoreBoard(command.board, onEvent, signal);
  }
}

function isForced(command: OperationCommand): boolean {
  return !('options' in command) || command.options.force;
}

/** A rollback that was asked for is a success, one that happened instead of an update is not. */
function exitCodeOf(command: OperationCommand, outcome: OperationOutcome): number {
  if (outcome.kind === 'held-back') return exitCodes.refused;
  return outcome.kind === 'rolled-back' && command.name !== 'rollback' ? exitCodes.failed : exitCodes.done;
}
