import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import process from 'node:process';

import { buildTree } from '../../../systemd/make/build.ts';
import { bundle } from '../../../systemd/make/bundle.ts';
import { isFull } from '../../full.ts';

const repository = resolve(import.meta.dirname, '../../..');

/** The launcher that gateways of tests run: the built program's where there is one, which starts in half the time. */
export function agentProgram(): string {
  return process.env['THING_AGENT_BUILT'] ?? join(repository, 'agent');
}

/** Returns the tree that was built for this run of the tests, if any. */
export function builtTree(): string | undefined {
  const program = process.env['THING_AGENT_BUILT'];
  return program === undefined ? undefined : dirname(program);
}

/**
 * Vitest calls it once before the first integration test, and its result after the last. Code compiled by V8, and files
 * stripped of types by Node, are reused by later processes of this run: by the checksum of the source, in a directory
 * of this run alone.
 */
export async function setup(): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), 'built-agent-'));
  await chmod(folder, 0o755); // some of its processes have the rights of another user
  const tree = join(folder, 'tree');
  const hosted = join(folder, 'hosted');
  await Promise.all([
    buildTree({ out: tree, main: 'src/main.ts', arch: process.arch, node: process.execPath }),
    bundle(hosted, 'test/fakes/machine/agent-host.ts', process.arch),
  ]);
  const cache = join(folder, 'compile-cache');
  await mkdir(cache);
  // the launcher uses the first; our programs without the launcher use the second
  const ours = { THING_AGENT_BUILT: join(tree, 'agent'), CACHE_DIRECTORY: cache, NODE_COMPILE_CACHE: cache };
  if (!isFull) Object.assign(ours, { THING_AGENT_HOST: join(hosted, 'main.js') });
  Object.assign(process.env, ours);
  return async () => {
    for (const name of Object.keys(ours)) Reflect.deleteProperty(process.env, name);
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  };
}
