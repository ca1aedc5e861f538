import { cp, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import process from 'node:process';

import { buildTree } from '../../../../systemd/make/build.ts';
import { builtTree } from '../../../fakes/machine/built-agent.ts';
import { tool } from '../../../fakes/machine/tool.ts';

/** Path of this run's runtime on machines that use small packages. */
export const RUNTIME = '/opt/runtime';

export interface SmallTree {
  readonly tree: string;
  /** The folder that is to be at RUNTIME. */
  readonly runtime: string;
}

/**
 * The build of this run, or a new one, with a small program that starts the machine's runtime. The runtime is most of a
 * package's size.
 */
export async function smallTree(directory: string): Promise<SmallTree> {
  const built = builtTree() ?? (await buildNow(join(directory, 'built-tree')));
  const [tree, source, runtime] = [join(directory, 'tree'), join(directory, 'node.c'), join(built, 'bin')];
  await cp(built, tree, { recursive: true, filter: (path) => path !== join(runtime, 'node') });
  const main = `int main(int count, char **words) { return execv("${RUNTIME}/node", words); }`;
  await writeFile(source, `#include <unistd.h>\n${main}\n`);
  await tool(['gcc', '-O1', '-o', join(tree, 'bin/node'), source]);
  return { tree, runtime };
}

async function buildNow(out: string): Promise<string> {
  const main = resolve(import.meta.dirname, '../../../../src/main.ts');
  await buildTree({ out, main, arch: process.arch, node: process.execPath });
  return out;
}
