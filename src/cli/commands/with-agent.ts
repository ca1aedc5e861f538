import { isUnresponsive } from '../../control/control-errors.ts';
import type { AgentOperations } from '../../control/operations.ts';
import type { DaemonAbsence, CliContext } from '../context.ts';
import { renderParagraph } from '../screen/layout.ts';
import { pageFor } from '../screen/page.ts';

/** The process that does the work: the running daemon, or this one. */
export type Executor = 'daemon' | 'this process';

/**
 * Runs a look, which is never refused: by the daemon if it answers, else in this process, beside whatever else is at
 * work.
 */
export async function withReadOnlyAgent<T>(
  context: CliContext,
  look: (agent: AgentOperations) => Promise<T>,
): Promise<T> {
  const daemon = await daemonForLook(context);
  if (typeof daemon === 'object') return look(daemon);
  await using agent = await context.look(daemon, context.signal);
  return await look(await checked(agent));
}

async function daemonForLook(context: CliContext): Promise<AgentOperations | DaemonAbsence> {
  try {
    return (await context.connect(context.signal)) ?? false;
  } catch (error) {
    if (!isUnresponsive(error)) throw error;
    const page = pageFor(context.err, context);
    context.err.write(renderParagraph(withoutAnswer, page));
    return 'silent';
  }
}

const withoutAnswer =
  'agent: the daemon does not answer, so this was read without it: systemctl restart thing-agent; journalctl -u thing-agent';

/**
 * Runs work that may change something: by the daemon if it answers, else in this process, which then holds the lock.
 */
export async function withAgent<T>(
  context: CliContext,
  work: (agent: AgentOperations, worker: Executor) => Promise<T>,
): Promise<T> {
  const daemon = await context.connect(context.signal);
  if (daemon !== undefined) return work(daemon, 'daemon');
  await using agent = await context.local(context.signal);
  return await work(await checked(agent), 'this process');
}

/** Checks the input of an agent in this process as the control socket would. */
async function checked(agent: AgentOperations): Promise<AgentOperations> {
  const { withCheckedInput } = await import('../../control/make-operations.ts');
  return withCheckedInput(agent);
}
