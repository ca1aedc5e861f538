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

/** What a build made for this run of the tests: nothing, outside of one. */
export function builtTree(): string | undefined {
  const program = process.env['THING_AGENT_BUILT'];
  return program === undefined ? undefined : dirname(program);
}

/**
 * Vitest calls it once, before the first integration test; what it returns, after the last. What V8 compiles in one of these
 * processes, and what Node makes of a TypeScript file, is there for the next one: by the checksum of the source, in a
 * folder of this run alone.
 */
export async function setup(): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), 'built-agent-'));
  await chmod(folder, 0o755); // some of its processes have the rights of another user
  const tree = join(folder, 'tree');
  await buildTree({ out: tree, main: 'src/main.ts', arch: process.arch, node: process.execPath });
  const hosted = join(folder, 'hosted');
  await bundle(hosted, 'test/fakes/machine/agent-host.ts', process.arch);
  const cache = join(folder, 'compile-cache');
  await mkdir(cache);
  // the launcher takes the one, a program of ours that is run without it the other
  const ours = { THING_AGENT_BUILT: join(tree, 'agent'), CACHE_DIRECTORY: cache, NODE_COMPILE_CACHE: cache };
  if (!isFull) Object.assign(ours, { THING_AGENT_HOST: join(hosted, 'main.js') });
  Object.assign(process.env, ours);
  return async () => {
    for (const name of Object.keys(ours)) Reflect.deleteProperty(process.env, name);
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  };
}
