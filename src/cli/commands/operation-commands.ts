import { resolve } from 'node:path';

import type { AgentOperations, OnEvent, OperationOutcome } from '../../control/operations.ts';
import { exitCodes } from '../../system/errors.ts';
import type { CliContext } from '../context.ts';
import { Detached } from '../interruption.ts';
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
      await using view = openProgressView(context, json);
      return await begin(command, agent, view.show, context);
    } catch (error) {
      if (worker === 'daemon' && error === context.signal.reason) throw new Detached();
      throw error;
    }
  });
  if (json) context.out.write(`${printableJson({ kind: 'result', outcome })}\n`);
  else context.out.write(renderOutcome(outcome, isForced(command), pageFor(context.out, context)));
  return exitCodeOf(command, outcome);
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
