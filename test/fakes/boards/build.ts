import { mkdir, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';

import { runProgram } from '../../../src/system/processes/child-process.ts';

const cache = join(import.meta.dirname, '../../../.cache/boards');
const timeoutMs = 60_000;

/**
 * Runs a compiler, its output last, unless a result newer than the sources exists. The result appears complete or not
 * at all, so that several tests may build concurrently.
 */
export async function built(name: string, sources: readonly string[], command: string): Promise<string> {
  await mkdir(cache, { recursive: true });
  const path = join(cache, name);
  const ages = await Promise.all(sources.map(async (source) => stat(source)));
  const there = await stat(path).catch(() => undefined);
  if (there !== undefined && ages.every(({ mtimeMs }) => mtimeMs < there.mtimeMs)) return path;
  const draft = `${path}.${process.pid}`;
  const [program = '', ...options] = command.split(' ');
  const { exitCode, stderr } = await runProgram(
    [program, ...options, draft],
    { timeoutMs },
    AbortSignal.timeout(timeoutMs),
  );
  if (exitCode !== 0) throw new Error(`${program}: ${stderr}`);
  await rename(draft, path);
  return path;
}
