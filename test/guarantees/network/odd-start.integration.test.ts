import { execFile } from 'node:child_process';
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { promisify } from 'node:util';

import { beforeEach, expect, test } from 'vitest';

import { agentProgram } from '../../fakes/machine/built-agent.ts';
import { artifact as signedArtifact, image, releaseKey } from '../../fakes/machine/demo-firmware.ts';
import { FileGateway } from '../../fakes/machine/file-gateway.ts';
import { untilTestEnds } from '../../until-test-ends.ts';

const run = promisify(execFile);
const healthy = image('healthy');
const release = await signedArtifact('v1', healthy);

let gateway: FileGateway;
let artifact: string;

beforeEach(async () => {
  const options = { serviceUrl: 'http://127.0.0.1:1', image: healthy, slotBytes: 1024 * 1024, reports: false };
  gateway = untilTestEnds(
    await FileGateway.create({ ...options, trustedKey: `\ufeff${releaseKey.publicPem}`, healthService: false }),
  );
  artifact = join(gateway.directory, 'v1.mender');
  await writeFile(artifact, release);
});

/** Runs the agent by a shell, after these commands. */
async function startAfter(commands: string, ...typed: readonly string[]): Promise<string> {
  const args = ['-c', `${commands} && exec "$@" 2>&1`, 'sh', agentProgram(), '--config', gateway.configFile, ...typed];
  const env = { ...process.env, RUNTIME_DIRECTORY: join(gateway.directory, 'run') };
  return (await run('sh', args, { env })).stdout;
}

test('installs a file signed with a key whose file has a byte order mark, from a removed working directory', async () => {
  const gone = join(gateway.directory, 'gone');
  await mkdir(gone);
  expect(await startAfter(`cd '${gone}' && rmdir '${gone}'`, 'install', artifact)).toContain('v1 is staged in slot B');
  await rm(gone, { recursive: true, force: true });
});

test('lets no umask make its files writable by others', async () => {
  await startAfter('umask 0', 'install', artifact);
  gateway.boot();
  expect(await startAfter('umask 0', 'commit')).toContain('v1');
  const written = ['run/committed', 'state/journal.json', 'state', 'run'].map((name) => join(gateway.directory, name));
  for (const path of written) expect([path, (await stat(path)).mode & 0o022]).toEqual([path, 0]);
  expect(await readFile(join(gateway.directory, 'run/committed'), 'utf8')).not.toBe('');
});
