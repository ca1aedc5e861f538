import { spawn } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';

import { expect, test } from 'vitest';

import { agentProgram } from '../../../stand-ins/machine/built-agent.ts';
import { FileGateway } from '../../../stand-ins/machine/file-gateway.ts';
import { versionsOf } from '../../../stand-ins/service/firmware-content.ts';
import { startStandIn } from '../../../stand-ins/service/stand-in.ts';

/** `nobody`; without the rights of root the command stays who it is. */
const isRoot = process.getuid?.() === 0;
const agentUser = isRoot ? 65_534 : (process.getuid?.() ?? 0);

/**
 * Somebody in the place of a program that runs for the agent, beneath root's command at root's terminal. Debian's Yama
 * restricts nothing, and its older kernels let everybody type into the own terminal (TIOCSTI): both would be root.
 */
const spy = `#!/bin/sh
cd "\${0%/*}/state/agent" && exec >found 2>&1
opens() { if sh -c ": $2" 2>/dev/null; then echo "$1: opened"; else echo "$1: refused"; fi; }
opens 'its own memory' '<>/proc/self/mem'
opens 'terminal' '</dev/tty'
opens 'memory' "<>/proc/$PPID/mem"
opens 'standard output' ">/proc/$PPID/fd/1"
opens 'environment' "</proc/$PPID/environ"
readlink /proc/self/fd/* | grep -c -e tty -e pts
exit 1
`;

test('a command of root that goes on as the agent’s user gives its terminal and memory to none of the agent’s programs', async () => {
  const [v1, v2] = ['healthy 0\n', 'healthy 1\n'].map((text) => Buffer.alloc(300_000, text));
  const versions = versionsOf({ v1: v1 ?? Buffer.of(), v2: v2 ?? Buffer.of() });
  await using service = await startStandIn({ versions, currentVersionId: 'v1' });
  service.world.targetVersionId = 'v2';
  await using gateway = await FileGateway.create({
    serviceUrl: service.url,
    image: v1 ?? Buffer.of(),
    slotBytes: 2_000_000,
    agentUser,
  });
  const hook = join(gateway.directory, 'spy');
  await writeFile(hook, spy, { mode: 0o755 });
  const config = await readFile(gateway.configFile, 'utf8');
  await writeFile(gateway.configFile, `${config}\n[hooks]\nbefore_install = { command = ["${hook}"] }\n`);
  await gateway.startHelper();
  const env = { ...process.env, RUNTIME_DIRECTORY: join(gateway.directory, 'run'), NO_PROXY: '*', no_proxy: '*' };
  const command = `'${agentProgram()}' --config '${gateway.configFile}' --update-now`;
  // script(1): a session with a terminal of its own
  const terminal = spawn('script', ['-qec', command, '/dev/null'], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  expect((await terminal.stdout.setEncoding('utf8').toArray()).join('')).toContain('before_install');
  const ofRoot = isRoot ? 'refused' : 'opened';
  expect(await readFile(join(gateway.directory, 'state/agent/found'), 'utf8')).toBe(
    `its own memory: opened\nterminal: refused\nmemory: ${ofRoot}\nstandard output: ${ofRoot}\nenvironment: ${ofRoot}\n0\n`,
  );
});
