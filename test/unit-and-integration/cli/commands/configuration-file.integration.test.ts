import { execFile } from 'node:child_process';
import process from 'node:process';
import { promisify } from 'node:util';

import { expect, test } from 'vitest';

import { agentProgram } from '../../../fakes/machine/built-agent.ts';

async function complaint(args: readonly string[], named: string): Promise<string> {
  const env = { ...process.env, THING_AGENT_CONFIG: named };
  const program = promisify(execFile)(agentProgram(), [...args, 'config', 'check'], { env });
  return program.then(
    ({ stdout }) => stdout,
    ({ stdout, stderr }: { readonly stdout: string; readonly stderr: string }) => stdout + stderr,
  );
}

test('THING_AGENT_CONFIG names the configuration, unless --config does; an empty one names none', async () => {
  expect(await complaint([], '/nowhere/of-environment.toml')).toContain('/nowhere/of-environment.toml');
  const typed = await complaint(['--config', '/nowhere/typed.toml'], '/nowhere/of-environment.toml');
  expect(typed).toContain('/nowhere/typed.toml');
  expect(typed).not.toContain('of-environment');
  expect(await complaint([], '')).not.toContain('/nowhere');
});
