import { runProgram } from '../../../src/system/processes/child-process.ts';

interface ToolOptions {
  readonly timeoutMs?: number;
  readonly input?: string;
  readonly env?: Readonly<Record<string, string>>;
}

const never = new AbortController().signal;

/** Runs a program of the system that must succeed; returns what it printed. */
export async function tool(command: readonly [string, ...string[]], options: ToolOptions = {}): Promise<string> {
  const { timeoutMs = 60_000 } = options;
  const { exitCode, stdout, stderr } = await runProgram(command, { ...options, timeoutMs }, never);
  if (exitCode !== 0) throw new Error(`${command.join(' ')}: exit ${exitCode}: ${stderr.trim().slice(-2000)}`);
  return stdout.trim();
}
