import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';

import { runProgram } from '../../system/processes/child-process.ts';
import { PageError } from '../../web/page-errors.ts';

const TIMEOUT_MS = 4 * 60_000;
const MAX_OUTPUT_BYTES = 64 * 1024;

/** Runs `agent support-bundle` of this program, which removes secrets, and returns its file. Throws AgentError. */
export async function ownSupportBundle(
  configPath: string,
  signal: AbortSignal,
): Promise<{ readonly name: string; readonly content: Buffer }> {
  const name = 'support-bundle.tar.gz';
  const directory = await mkdtemp(join(tmpdir(), 'support-bundle-'));
  try {
    const file = join(directory, name);
    const program = [...process.execArgv, process.argv[1] ?? ''];
    const command = [process.execPath, ...program, '--config', configPath, 'support-bundle', file] as const;
    const options = { timeoutMs: TIMEOUT_MS, maxOutputBytes: MAX_OUTPUT_BYTES };
    const { exitCode, stderr } = await runProgram(command, options, signal);
    if (exitCode !== 0) throw new PageError('bundle-failed', `agent support-bundle failed: ${stderr.trim()}`);
    return { name, content: await readFile(file) };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
