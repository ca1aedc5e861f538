import type { ReportedError } from '../control/events.ts';
import { AgentError, describeError, exitCodes } from '../system/errors.ts';
import { ArgumentError } from './arguments/command.ts';
import type { ParsedArguments, Invocation } from './arguments/command.ts';
import { usageError } from './arguments/usage-error.ts';
import type { CliContext } from './context.ts';
import { CliError } from './errors.ts';
import { DetachedError, InterruptedError, PartialFlashError } from './interruption.ts';

/** Runs the command and resolves with the exit code. Never rejects: an error is printed and has its own exit code. */
export async function runCommand({ wanted, json }: ParsedArguments, context: CliContext): Promise<number> {
  try {
    switch (wanted.kind) {
      case 'usage-error':
        throw new CliError('usage', wanted.message, { advice: wanted.advice });
      case 'help':
        return await help(wanted, json, context);
      case 'version':
        return version(json, context);
      case 'command':
        return await wanted.command.run(wanted.typed, context);
    }
  } catch (error) {
    return printError(asUsageError(error, wanted), json, context);
  }
}

/** The error for an argument that only the command itself can judge. */
function asUsageError(error: unknown, wanted: Invocation): unknown {
  if (!(error instanceof ArgumentError) || wanted.kind !== 'command') return error;
  const { message, advice } = usageError(`${wanted.command.name}: ${error.message}`, wanted.command);
  return new CliError('usage', message, { advice });
}

async function help(
  { command, group }: Extract<Invocation, { kind: 'help' }>,
  json: boolean,
  context: CliContext,
): Promise<number> {
  const { helpText, helpValue } = await import('./arguments/help.ts');
  context.out.write(json ? `${JSON.stringify(helpValue(command, group))}\n` : helpText(command, group));
  return exitCodes.done;
}

function version(json: boolean, { out, version: agent }: CliContext): number {
  out.write(json ? `${JSON.stringify({ version: agent })}\n` : `agent ${agent}\n`);
  return exitCodes.done;
}

async function printError(error: unknown, json: boolean, context: CliContext): Promise<number> {
  const reason: unknown = context.signal.reason;
  if (reason instanceof InterruptedError && !(error instanceof AgentError)) {
    printInterruption(error, json, context);
    return reason.exitCode;
  }
  const { renderError } = await import('./screen/pages/render-reports.ts');
  const { pageFor } = await import('./screen/page.ts');
  const { printableJson } = await import('../system/log/printable.ts');
  const reported = describe(error);
  if (json) context.out.write(`${printableJson({ kind: 'error', error: reported })}\n`);
  else context.err.write(renderError(reported, pageFor(context.err, context)));
  return exitCodes[reported.exit];
}

function printInterruption(error: unknown, json: boolean, { out, err }: CliContext): void {
  const goesOn = error instanceof DetachedError;
  const half = error instanceof PartialFlashError ? error : undefined;
  const told = half === undefined ? { goesOn } : { goesOn, halfWritten: half.boards };
  if (json) out.write(`${JSON.stringify({ kind: 'interrupted', ...told })}\n`);
  else if (goesOn)
    err.write('agent: interrupted; the operation continues in the daemon\n       to see its progress: agent status\n');
  else if (half !== undefined)
    err.write(
      `agent: interrupted; partially flashed and without a program: ${half.boards.join(', ')}\n       ${half.advice}\n`,
    );
  else err.write('agent: interrupted\n');
}

function describe(error: unknown): ReportedError {
  if (error instanceof AgentError) {
    return { code: error.code, message: error.message, exit: error.exit, advice: error.advice };
  }
  return { code: 'internal-error', message: `unexpected failure: ${describeError(error)}`, exit: 'failed' };
}
