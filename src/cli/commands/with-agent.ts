import type { AgentOperations } from '../../control/operations.ts';
import type { CliContext } from '../context.ts';

/** Who does the work: the running daemon, or this process. */
export type Worker = 'daemon' | 'this process';

/** For a look, which is never refused: through the daemon if one answers, else beside whoever is at work. */
export async function withLook<T>(context: CliContext, look: (agent: AgentOperations) => Promise<T>): Promise<T> {
  const daemon = await context.connect(context.signal);
  if (daemon !== undefined) return look(daemon);
  await using agent = await context.look(context.signal);
  return await look(agent);
}

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
