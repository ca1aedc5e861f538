import type { AgentOperations } from '../../control/operations.ts';
import type { CliContext } from '../context.ts';

/** Who does the work: the running daemon, or this process. */
export type Worker = 'daemon' | 'this process';

/** Through the daemon if one answers, else by itself. */
export async function withAgent<T>(
  context: CliContext,
  work: (agent: AgentOperations, worker: Worker) => Promise<T>,
): Promise<T> {
  const daemon = await context.connect(context.signal);
  if (daemon !== undefined) return work(daemon, 'daemon');
  await using agent = await context.local(context.signal);
  return await work(agent, 'this process');
}
