import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, describe, expect, test } from 'vitest';

import { socketNames } from '../../../../src/control/access.ts';
import { controlClient } from '../../../../src/control/client/control-client.ts';
import { AgentError } from '../../../../src/system/errors.ts';
import { openNamedFile } from '../../../../src/system/files/opened-file.ts';
import { FileGateway, stop } from '../../../fakes/machine/file-gateway.ts';
import type { Finished } from '../../../fakes/machine/file-gateway.ts';
import { tool } from '../../../fakes/machine/tool.ts';
import { bufferContent } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import type { StandIn } from '../../../fakes/service/stand-in.ts';
import { folderUntilTestEnds, untilTestEnds } from '../../../until-test-ends.ts';
import { makeKeyPair } from '../../firmware/artifact/keys.ts';

const keys = makeKeyPair('ecdsa-p256', 'release.pem');
const SLOT_BYTES = 400_000;

let folder: string;

beforeEach(async () => {
  folder = folderUntilTestEnds();
  await writeFile(join(folder, 'private.pem'), keys.privatePem);
});

function rootOf(name: string): Buffer {
  return Buffer.alloc(200_000, `healthy root ${name}\n`, 'latin1');
}

/** Written by mender-artifact. */
async function release(name: string, securityVersion?: number): Promise<string> {
  const [image, output] = [join(folder, 'rootfs.img'), join(folder, `${name}.mender`)];
  await writeFile(image, rootOf(name));
  const naming = ['--artifact-name', name, '--device-type', 'demo-gateway', '--compression', 'none', '--file', image];
  const provides = securityVersion === undefined ? [] : ['--provides', `security_version:${securityVersion}`];
  const rest = [...provides, '--key', join(folder, 'private.pem'), '--output-path', output];
  await tool(['mender-artifact', 'write', 'rootfs-image', ...naming, ...rest]);
  return output;
}

async function serve(versions: Readonly<Record<string, string>>): Promise<StandIn> {
  const firmware = Object.entries(versions).map(async ([name, file]) => ({
    id: `id-${name}`,
    name,
    firmware: bufferContent(await readFile(file)),
  }));
  const service = await startStandIn({
    versions: [{ id: 'v0' }, ...(await Promise.all(firmware))],
    targetVersionId: 'v0',
  });
  return untilTestEnds(service);
}

async function gatewayAt(serviceUrl: string, follow: string): Promise<FileGateway> {
  return untilTestEnds(
    await FileGateway.create({
      serviceUrl,
      image: rootOf('0'),
      slotBytes: SLOT_BYTES,
      trustedKey: keys.publicPem,
      updateToml: `follow = "${follow}"`,
      reports: follow !== 'none',
      healthService: false,
    }),
  );
}

/** Types a command as a technician, and waits for its result. */
async function settle(gateway: FileGateway, ...words: readonly string[]): Promise<Finished> {
  const done = await gateway.run(...words);
  if (!gateway.rebootRequested) return done;
  gateway.boot();
  return gateway.run('--update-now');
}

async function running(gateway: FileGateway): Promise<string> {
  return (await gateway.imageOf(gateway.booted, 20)).toString('latin1').split('\n')[0] ?? '';
}

describe('an old signed release', () => {
  test('offered under a new name is refused before a byte is written, and runs under no name', async () => {
    const service = await serve({ '9.9.9': await release('1.0.0') });
    service.world.targetVersionId = 'id-9.9.9';
    const gateway = await gatewayAt(service.url, 'target');
    const refused = await settle(gateway, '--update-now');
    expect(refused).toMatchObject({ exitCode: 77 });
    expect(refused.stderr).toContain('name-mismatch');
    expect(await running(gateway)).toBe('healthy root 0');
    expect((await gateway.imageOf('B', 4)).toString('latin1')).toBe('\0\0\0\0');
    expect(service.world.things[0]?.currentVersionId).toBe('v0');
  });

  test('rejects one below the committed security version, also from a file, unless root forces it', async () => {
    const [old, good] = [await release('1.0.0', 1), await release('2.0.0', 2)];
    const nameless = await release('1.5.0');
    const gateway = await gatewayAt('http://127.0.0.1:9', 'none');
    expect(await settle(gateway, 'install', good)).toMatchObject({ exitCode: 0 });
    for (const file of [old, nameless]) {
      const refused = await settle(gateway, 'install', file);
      expect(refused).toMatchObject({ exitCode: 77 });
      expect(refused.stderr).toContain('downgrade');
      expect(await running(gateway)).toBe('healthy root 2.0.0');
    }
    expect(await settle(gateway, 'install', old, '--allow-downgrade')).toMatchObject({ exitCode: 0 });
    expect(await running(gateway)).toBe('healthy root 1.0.0');
    expect((await gateway.run('status', '--json')).stdout).toContain('although it has security version 1');
    expect(await settle(gateway, 'install', nameless)).toMatchObject({ exitCode: 77 });
    await writeFile(join(gateway.directory, 'state/journal.json'), '{"x'); // it is not all that knows of the floor
    const afterwards = await settle(gateway, 'install', nameless);
    expect(afterwards).toMatchObject({ exitCode: 77 });
    expect(afterwards.stderr).toContain('(downgrade)');
  });

  // Regression: with the default configuration an operator installed 1.0.0 over 2.0.0.
  test('without a security version is installed for root, and for no operator', async () => {
    const [old, good] = [await release('1.0.0'), await release('2.0.0')];
    const gateway = await gatewayAt('http://127.0.0.1:9', 'none');
    expect(await settle(gateway, 'install', good)).toMatchObject({ exitCode: 0 });
    const daemon = await gateway.startDaemon();
    const operator = controlClient(join(gateway.directory, 'run', socketNames.operators));
    await using file = await openNamedFile(old);
    const order = { path: old, file, force: true, reboot: true };
    let end: unknown;
    do end = await operator.install(order, () => {}, AbortSignal.timeout(60_000)).catch((error: unknown) => error);
    while (end instanceof AgentError && end.code === 'agent-busy'); // with its first round
    expect(end).toMatchObject({ code: 'downgrade' });
    expect(await stop(daemon)).toBe(0);
    expect(await settle(gateway, 'install', old)).toMatchObject({ exitCode: 0 });
    expect(await running(gateway)).toBe('healthy root 1.0.0');
  });

  // The page of guarantees excludes this case.
  test('can be installed again after the state directory was lost, until a release raises the minimum again', async () => {
    const [old, good] = [await release('1.0.0', 1), await release('2.0.0', 2)];
    const gateway = await gatewayAt('http://127.0.0.1:9', 'none');
    const config = await readFile(gateway.configFile, 'utf8');
    await writeFile(gateway.configFile, config.replace('[trust]', '[trust]\ndowngrade = "refuse"'));
    expect(await settle(gateway, 'install', good)).toMatchObject({ exitCode: 0 });
    expect(await settle(gateway, 'install', old)).toMatchObject({ exitCode: 77 });
    await rm(join(gateway.directory, 'state'), { recursive: true });
    expect(await settle(gateway, 'install', old)).toMatchObject({ exitCode: 0 });
    expect(await settle(gateway, 'install', good)).toMatchObject({ exitCode: 0 });
    expect(await settle(gateway, 'install', old)).toMatchObject({ exitCode: 77 });
  });

  test('that only booted, and was not found healthy, raises no floor', async () => {
    const gateway = await gatewayAt('http://127.0.0.1:9', 'none');
    expect(await settle(gateway, 'install', await release('1.0.0', 1))).toMatchObject({ exitCode: 0 });
    const image = join(folder, 'sick.mender');
    await writeFile(join(folder, 'rootfs.img'), Buffer.alloc(200_000, 'unhealthy\n', 'latin1'));
    const options = ['--artifact-name', '3.0.0', '--device-type', 'demo-gateway', '--compression', 'none'];
    const rest = ['--provides', 'security_version:3', '--key', join(folder, 'private.pem'), '--output-path', image];
    await tool(['mender-artifact', 'write', 'rootfs-image', ...options, '--file', join(folder, 'rootfs.img'), ...rest]);
    await settle(gateway, 'install', image);
    while (gateway.rebootRequested) {
      gateway.boot();
      await gateway.run('--update-now');
    }
    expect(await running(gateway)).toBe('healthy root 1.0.0');
    expect(await settle(gateway, 'install', await release('1.0.1', 1))).toMatchObject({ exitCode: 0 });
  });
});
