import { spawnSync } from 'node:child_process';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { loadConfig } from '../../../src/config/load-config.ts';
import { lockAgent } from '../../../src/daemon/processes/one-process.ts';
import { agentProgram } from '../../stand-ins/machine/built-agent.ts';
import { FileGateway, stop } from '../../stand-ins/machine/file-gateway.ts';
import { bufferContent } from '../../stand-ins/service/firmware-content.ts';
import { startStandIn } from '../../stand-ins/service/stand-in.ts';
import type { StandIn } from '../../stand-ins/service/stand-in.ts';
import { buildArtifact } from '../firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../firmware/artifact/keys.ts';

/** `nobody`; without the rights of root one user is both. */
const isRoot = process.getuid?.() === 0;
const agentUser = isRoot ? 65_534 : (process.getuid?.() ?? 0);

const keys = makeKeyPair('ecdsa-p256', 'release.pem');
const content = Buffer.alloc(300_000, 'healthy 1\n', 'latin1');
const files = [{ name: 'rootfs.ext4', content }];
const v1 = await buildArtifact({ name: 'v1', devices: ['demo-gateway'], files, key: keys.privateKey });

let stack: AsyncDisposableStack;
let service: StandIn;
let gateway: FileGateway;

const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  service = stack.use(
    await startStandIn({ versions: [{ id: 'v1', firmware: bufferContent(v1) }], currentVersionId: 'v1' }),
  );
  const image = Buffer.alloc(300_000, 'healthy 0\n', 'latin1');
  const options = { serviceUrl: service.url, image, slotBytes: 2_000_000, trustedKey: keys.publicPem, agentUser };
  gateway = stack.use(await FileGateway.create(options));
});
afterEach(async () => {
  await stack.disposeAsync();
});

const namesIn = async (folder: string): Promise<readonly string[]> => readdir(join(gateway.directory, folder));

// Seen: an agent that had thrown its own files away kept its run directory, in which root then made sockets.
test('one process takes the run directory of an agent without files of its own', async () => {
  const script = join(gateway.directory, 'own-folders');
  await writeFile(script, '#!/bin/sh\necho "$1 $RUNTIME_DIRECTORY $AGENT_LOCK" >"$STATE_DIRECTORY/taken"\n', {
    mode: 0o755,
  });
  const loaded = await loadConfig(gateway.configFile, {});
  const aside = { helper: join(gateway.directory, 'helper/helper.sock'), why: 'asked' } as const;
  {
    await using _lock = await lockAgent({ ...loaded, aside }, 'test', AbortSignal.timeout(60_000), script);
  }
  const { run, state } = loaded.config.paths;
  expect(await namesIn('state/agent')).toEqual([]);
  if (!isRoot) return; // without its rights they are of one user
  expect(await readFile(join(state, 'taken'), 'utf8')).toBe(`root ${run} ours\n`);
});

describe('one process where the configuration names a helper', () => {
  test('is a command of root while neither agent nor helper runs, and a daemon that is told so', async () => {
    const wanted = isRoot ? ['--update-now'] : ['--update-now', '--single'];
    const stderr = isRoot ? matching(/neither the agent nor its helper runs/) : matching(/staging/);
    expect(await gateway.run(...wanted)).toMatchObject({ exitCode: 0, stderr });
    expect(gateway.boot()).toBe('B');
    expect(await namesIn('state')).toEqual(expect.arrayContaining(['identity.json', 'journal.json']));
    expect(await namesIn('state/agent')).toEqual([]);
    const daemon = await gateway.startDaemon(() => {}, {}, ['--single']);
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
    expect(await gateway.json('status')).toMatchObject({ installed: { versionName: 'v1' }, daemon: true });
    expect(await gateway.run('hold', '--single')).toMatchObject({ exitCode: 75, stderr: matching(/agent-runs/) });
    expect(await stop(daemon)).toBe(0);
    const lock = await stat(join(gateway.directory, 'run/agent.lock'));
    expect(lock.uid).toBe(agentUser);
  });

  test('is refused beside a helper, to who is not root, and while the agent has files of its own', async () => {
    const helper = await gateway.startHelper();
    expect(await gateway.run('hold', '--single')).toMatchObject({ exitCode: 75, stderr: matching(/helper-runs/) });
    expect(await gateway.run('hold')).toMatchObject({ exitCode: 0 });
    await stop(helper);
    if (!isRoot) return;
    const args = ['--config', gateway.configFile, 'resume', '--single'];
    const { status, stderr } = spawnSync(agentProgram(), args, { uid: agentUser, gid: agentUser, encoding: 'utf8' });
    expect([status, stderr]).toEqual([77, matching(/single-not-permitted[^]*sudo/)]);
    await writeFile(join(gateway.directory, 'state/agent/identity.json'), '{}');
    expect(await gateway.run('resume', '--single')).toMatchObject({ exitCode: 77, stderr: matching(/own-folders/) });
  });
});
