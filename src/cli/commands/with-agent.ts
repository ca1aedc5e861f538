import { isUnresponsive } from '../../control/control-errors.ts';
import type { AgentOperations } from '../../control/operations.ts';
import type { StatusReport } from '../../control/reports.ts';
import { AgentError, mapError, valueOrError } from '../../system/errors.ts';
import type { DaemonAbsence, CliContext } from '../context.ts';
import { renderParagraph } from '../screen/layout.ts';
import { pageFor } from '../screen/page.ts';

export type Executor = 'daemon' | 'this process';

/**
 * Runs a read-only operation, which is never refused: in the daemon if it responds, else in this process without a
 * lock.
 */
export async function withReadOnlyAgent<T>(
  context: CliContext,
  read: (agent: AgentOperations) => Promise<T>,
): Promise<T> {
  const daemon = await daemonForReading(context);
  return typeof daemon === 'object' ? read(daemon) : readHere(context, daemon, read);
}

/**
 * Runs a read-only operation by the configuration that --config names, in this process. By default, or if this user may
 * not read the state, as `withReadOnlyAgent`.
 */
export async function withNamedConfig<T>(
  context: CliContext,
  read: (agent: AgentOperations) => Promise<T>,
): Promise<T> {
  if (!context.isConfigNamed) return withReadOnlyAgent(context, read);
  try {
    return await readHere(context, false, read);
  } catch (error) {
    if (!(error instanceof AgentError) || error.code !== 'state-not-permitted') throw error;
    const answer = await withReadOnlyAgent(context, read);
    context.err.write(renderParagraph(byOwnConfiguration, pageFor(context.err, context)));
    return answer;
  }
}

const byOwnConfiguration =
  'agent: the daemon checked this by its own configuration, since this user may not read the state directory; to use the file that --config names, repeat the command with sudo';

async function readHere<T>(
  context: CliContext,
  daemon: DaemonAbsence,
  read: (agent: AgentOperations) => Promise<T>,
): Promise<T> {
  await using agent = await context.readOnly(daemon, context.signal);
  return await read(await checked(agent));
}

/**
 * Reads the status. If the configuration is invalid and no daemon responds, reads it by the valid part. Throws the error
 * of the configuration if this user may not read the state.
 */
export async function readStatus(context: CliContext): Promise<StatusReport> {
  const { signal } = context;
  const found = await valueOrError(withReadOnlyAgent(context, (agent) => agent.status({}, signal)));
  if (!(found instanceof AgentError)) return found;
  if (found.code !== 'config-invalid') throw found;
  const readPart = async (): Promise<StatusReport> => {
    await using agent = await context.readOnly(false, signal, found);
    return await agent.status({}, signal);
  };
  return mapError(readPart(), (error) => (error instanceof AgentError ? found : error));
}

async function daemonForReading(context: CliContext): Promise<AgentOperations | DaemonAbsence> {
  try {
    return (await context.connect(context.signal)) ?? false;
  } catch (error) {
    if (!isUnresponsive(error)) throw error;
    const page = pageFor(context.err, context);
    context.err.write(renderParagraph(withoutAnswer, page));
    return 'unresponsive';
  }
}

const withoutAnswer =
  'agent: the daemon is not responding; this was read without it. See journalctl -u thing-agent; to restart it, run systemctl restart thing-agent';

/**
 * Runs an operation that may change something: in the daemon if it responds, else in this process, which then holds the
 * lock.
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
