import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

const execute = promisify(execFile);

export const systemdDirectory = resolve(import.meta.dirname, '../../../systemd');

export interface Ended {
  readonly exitCode: number;
  readonly output: string;
}

/** Runs a program until it exits. Returns both outputs in one text. */
export async function run(program: string, ...args: readonly string[]): Promise<Ended> {
  try {
    const { stdout, stderr } = await execute(program, args, { timeout: 60_000 });
    return { exitCode: 0, output: stdout + stderr };
  } catch (error) {
    if (!(error instanceof Error && 'stdout' in error && 'code' in error && typeof error.code === 'number'))
      throw error;
    return { exitCode: error.code, output: `${error.stdout as string}${(error as { stderr?: string }).stderr ?? ''}` };
  }
}

export async function newDirectory(): Promise<string> {
  return mkdtemp(join(tmpdir(), 'agent-install-'));
}

/** Makes the output of a build, with a launcher and a runtime that only report that they ran. */
export async function fakeTree(directory: string, content: string): Promise<string> {
  const tree = join(directory, `tree-${content}`);
  await mkdir(join(tree, 'bin'), { recursive: true });
  await mkdir(join(tree, 'lib'));
  for (const program of ['agent', 'bin/node']) {
    await writeFile(join(tree, program), `#!/bin/sh\necho ${content}\n`);
    await chmod(join(tree, program), 0o700);
  }
  await writeFile(join(tree, 'lib', 'main.js'), `// ${content}\n`);
  await writeFile(join(tree, 'lib', `${content}.js`), '');
  return tree;
}
