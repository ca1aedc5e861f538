import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import process from 'node:process';

import { buildTree } from '../../../systemd/build.ts';

const repository = resolve(import.meta.dirname, '../../..');

/** The launcher that gateways of tests run: the built program's where there is one, which starts in half the time. */
export function agentProgram(): string {
  return process.env['THING_AGENT_BUILT'] ?? join(repository, 'agent');
}

/** Vitest calls it once, before the first integration test; what it returns, after the last. */
export async function setup(): Promise<() => Promise<void>> {
  const tree = await mkdtemp(join(tmpdir(), 'built-agent-'));
  await buildTree({ out: tree, main: 'src/main.ts', arch: process.arch, node: process.execPath });
  process.env['THING_AGENT_BUILT'] = join(tree, 'agent');
  return async () => {
    delete process.env['THING_AGENT_BUILT'];
    await rm(tree, { recursive: true });
  };
}
