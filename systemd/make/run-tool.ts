import { writeFile } from 'node:fs/promises';
import process from 'node:process';

/** Invalid arguments. */
export class Misuse extends Error {}

const MISUSED = 64;

/** Runs a tool of this directory. A failure prints one line, and invalid arguments also the usage. Resolves with the exit code. */
export async function runTool(name: string, usage: string, work: () => Promise<void>): Promise<number> {
  try {
    await work();
    return 0;
  } catch (error) {
    process.stderr.write(`${name}: ${error instanceof Error ? error.message : String(error)}\n`);
    if (!isMisuse(error)) return 1;
    process.stderr.write(usage);
    return MISUSED;
  }
}

/** Receives each slow step when it starts. */
export type Say = (step: string) => void;

/** Prints steps to standard error, since standard output is for the result. */
export function stepsOf(name: string): Say {
  return (step) => void process.stderr.write(`${name}: ${step}\n`);
}

/** Writes the figures of a tool to a file for programs, if one was named. */
export async function writeFigures(file: string | undefined, figures: object): Promise<void> {
  if (file !== undefined) await writeFile(file, `${JSON.stringify(figures, undefined, 2)}\n`);
}

export function mebibytes(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

/** True also for the errors of parseArgs of node:util. */
function isMisuse(error: unknown): boolean {
  if (error instanceof Misuse) return true;
  return error instanceof TypeError && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS_');
}
