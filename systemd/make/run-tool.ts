import { writeFile } from 'node:fs/promises';
import process from 'node:process';

/** What was typed cannot be meant. */
export class Misuse extends Error {}

const MISUSED = 64;

/** The end of a program of this folder: a failure is one line, and what was typed wrong shows the usage. Resolves with the exit code. */
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

/** Is told of each step that takes long, as it begins. */
export type Say = (step: string) => void;

/** For a person, beside what the tool yields on standard output. */
export function stepsOf(name: string): Say {
  return (step) => void process.stderr.write(`${name}: ${step}\n`);
}

/** What a tool has made, in a file for programs, where one was named. */
export async function writeFigures(file: string | undefined, figures: object): Promise<void> {
  if (file !== undefined) await writeFile(file, `${JSON.stringify(figures, undefined, 2)}\n`);
}

export function mebibytes(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

/** Also what parseArgs of node:util says. */
function isMisuse(error: unknown): boolean {
  if (error instanceof Misuse) return true;
  return error instanceof TypeError && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS_');
}
