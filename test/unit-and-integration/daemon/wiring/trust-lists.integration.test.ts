import { createHash } from 'node:crypto';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, describe, expect, test } from 'vitest';

import { FileGateway, stop } from '../../../fakes/machine/file-gateway.ts';
import type { Finished } from '../../../fakes/machine/file-gateway.ts';
import { tool } from '../../../fakes/machine/tool.ts';
import { bufferContent } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import type { StandIn } from '../../../fakes/service/stand-in.ts';
import { testInFull } from '../../../full-run.ts';
import { folderUntilTestEnds, untilTestEnds } from '../../../until-test-ends.ts';
import { makeKeyPair } from '../../firmware/artifact/keys.ts';

const keys = { old: makeKeyPair('ecdsa-p256'), next: makeKeyPair('rsa'), thief: makeKeyPair('ecdsa-p256') };
type KeyName = keyof typeof keys;

/** The real program installs, boots and looks up to a dozen times. */
const LONG = { timeout: 300_000 };

let folder: string;

beforeEach(async () => {
  folder = folderUntilTestEnds();
  for (const [name, { privatePem, publicPem }] of Object.entries(keys)) {
    await writeFile(join(folder, `${name}.key`), privatePem);
    await writeFile(join(folder, `${name}.pem`), publicPem);
  }
});

function rootOf(name: string): Buffer {
  return Buffer.alloc(200_000, `healthy root ${name}\n`, 'latin1');
}

/** By mender-artifact. */
async function artifact(kind: string, name: string, file: string, key: KeyName): Promise<string> {
  const output = join(folder, `${name}-${key}.mender`);
  const naming = ['--artifact-name', name, '--device-type', 'demo-gateway', '--compression', 'none', '--file', file];
  const type = kind === 'module-image' ? ['--type', 'thing-trust'] : [];
  await tool([
    'mender-artifact',
    'write',
    kind,
    ...type,
    ...naming,
    '--key',
    join(folder, `${key}.key`),
    '--output-path',
    output,
  ]);
  return output;
}

async function release(name: string, key: KeyName): Promise<string> {
  const image = join(folder, 'rootfs.img');
  await writeFile(image, rootOf(name));
  return artifact('rootfs-image', name, image, key);
}

/** Makes a list with the agent and mender-artifact, as for a release. */
async function list(
  gateway: FileGateway,
  number: number,
  key: KeyName,
  ...options: readonly string[]
): Promise<string> {
  const file = join(folder, `list-${number}.json`);
  expect(await gateway.run('artifact', 'trust', file, '--number', String(number), ...options)).toMatchObject({
    exitCode: 0,
  });
  return artifact('module-image', `trust-${number}`, file, key);
}

async function gatewayAt(serviceUrl: string, follow: string): Promise<FileGateway> {
  const reports = follow !== 'none';
  const options = { serviceUrl, image: rootOf('0'), slotBytes: 400_000, healthService: false, reports };
  return untilTestEnds(
    await FileGateway.create({ ...options, trustedKey: keys.old.publicPem, updateToml: `follow = "${follow}"` }),
  );
}

async function alone(): Promise<FileGateway> {
  return gatewayAt('http://127.0.0.1:9', 'none');
}

async function settle(gateway: FileGateway, ...words: readonly string[]): Promise<Finished> {
  const done = await gateway.run(...words);
  if (!gateway.rebootRequested) return done;
  gateway.boot();
  return gateway.run('--update-now');
}

async function refused(gateway: FileGateway, file: string, code: string): Promise<void> {
  const slots = [await gateway.imageOf('A', 30), await gateway.imageOf('B', 30)];
  const done = await settle(gateway, 'install', file);
  expect(done.stderr).toContain(`(${code})`);
  expect(done).toMatchObject({ exitCode: 77 });
  expect([await gateway.imageOf('A', 30), await gateway.imageOf('B', 30)]).toEqual(slots);
}

async function taken(gateway: FileGateway, file: string): Promise<void> {
  const done = await settle(gateway, 'install', file);
  expect({ exitCode: done.exitCode, said: done.stderr }).toEqual({ exitCode: 0, said: done.stderr });
}

async function running(gateway: FileGateway): Promise<string> {
  return (await gateway.imageOf(gateway.booted, 20)).toString('latin1').split('\n')[0] ?? '';
}

const file = (name: string): string => join(folder, name);

describe('a key', () => {
  test(
    'is replaced by a list that the old one signs; from then on nothing of the old one is installed',
    LONG,
    async () => {
      const gateway = await alone();
      await refused(gateway, await release('1.0.0', 'next'), 'signature-invalid');
      await taken(gateway, await list(gateway, 1, 'old', '--keys', file('next.pem'), '--revoke-keys', file('old.pem')));
      await refused(gateway, await release('1.0.1', 'old'), 'key-revoked');
      await taken(gateway, await release('1.0.0', 'next'));
      expect(await running(gateway)).toBe('healthy root 1.0.0');
      const status = JSON.parse((await gateway.run('status', '--json')).stdout) as { installed: { signedBy: string } };
      expect(status.installed.signedBy).toBe(keys.next.trusted.fingerprint);
      await refused(gateway, await list(gateway, 2, 'old', '--keys', file('old.pem')), 'key-revoked');
      const doctor = await gateway.run('doctor', '--json');
      expect(doctor.stdout).toContain(`release.pem ${keys.old.trusted.fingerprint}, revoked`);
    },
  );

  // Regression: it stayed trusted, since the identity of a key was the digest of its file's encoding.
  test('is revoked by a list that names another encoding of it', LONG, async () => {
    const gateway = await alone();
    const forms = ['-conv_form', 'compressed', '-out', file('compressed.pem')];
    await tool(['openssl', 'ec', '-pubin', '-in', file('old.pem'), ...forms]);
    const keysOf = ['--keys', file('next.pem'), '--revoke-keys', file('compressed.pem')];
    await taken(gateway, await list(gateway, 1, 'old', ...keysOf));
    await refused(gateway, await release('1.0.1', 'old'), 'key-revoked');
    expect(await running(gateway)).toBe('healthy root 0');
  });

  testInFull(
    'that was revoked comes back by no older list, no list that forgets it, and no list of a stranger',
    async () => {
      const gateway = await alone();
      const older = await list(gateway, 4, 'old', '--keys', file('thief.pem'));
      await taken(
        gateway,
        await list(gateway, 5, 'old', '--keys', file('next.pem'), '--revoke-keys', keys.thief.trusted.fingerprint),
      );
      await refused(gateway, older, 'trust-list-old');
      await refused(gateway, await list(gateway, 6, 'thief', '--keys', file('thief.pem')), 'signature-invalid');
      await taken(gateway, await list(gateway, 7, 'old', '--keys', file('thief.pem')));
      await refused(gateway, await release('6.6.6', 'thief'), 'key-revoked');
      expect(await running(gateway)).toBe('healthy root 0');
    },
    LONG,
  );

  test('as its owner computes it by openssl, is named in status', async () => {
    const gateway = await alone();
    await taken(gateway, await release('1.0.0', 'old'));
    const { stdout } = await tool([
      'openssl',
      'pkey',
      '-pubin',
      '-in',
      file('old.pem'),
      '-outform',
      'DER',
      '-out',
      file('old.der'),
    ]).then(async () => ({
      stdout: createHash('sha256')
        .update(await readFile(file('old.der')))
        .digest('hex'),
    }));
    expect((await gateway.run('status', '--json')).stdout).toContain(`"signedBy":"sha256:${stdout}"`);
    expect((await gateway.run('status')).stdout).toContain('signed by release.pem');
    expect(await readFile(join(gateway.directory, 'state/journal.json'), 'utf8')).not.toContain('release.pem');
  });

  test('that is not yet valid or has expired signs nothing', async () => {
    const gateway = await alone();
    const life = 'name = "Release", not_before = 2020-01-01, not_after = 2021-01-01';
    const config = await readFile(gateway.configFile, 'utf8');
    const limited = `keys = [{ file = "${file('old.pem')}", ${life} }, "${file('next.pem')}"]`;
    await writeFile(
      gateway.configFile,
      config.replace(/keys = .*/, () => limited),
    );
    await taken(gateway, await list(gateway, 1, 'next')); // its time is at least today
    await refused(gateway, await release('1.0.0', 'old'), 'key-expired');
    expect(await running(gateway)).toBe('healthy root 0');
  });
});

test('a revoked release is neither installed nor the target of a rollback, unless it is forced', LONG, async () => {
  const gateway = await alone();
  const bad = await release('1.0.0', 'old');
  await taken(gateway, bad);
  await taken(gateway, await release('2.0.0', 'old'));
  await taken(gateway, await list(gateway, 1, 'old', '--revoke-releases', bad));
  await refused(gateway, bad, 'release-revoked');
  const back = await gateway.run('rollback');
  expect(back).toMatchObject({ exitCode: 77 });
  expect(back.stderr).toContain('(release-revoked)');
  const warned = (await gateway.run('status')).stdout.replaceAll(/\s+/g, ' ');
  expect(warned).toContain('the previous release, the target of agent rollback, was revoked by list 1');
  expect(await settle(gateway, 'rollback', '--force')).toMatchObject({ exitCode: 0 });
  expect(await running(gateway)).toBe('healthy root 1.0.0');
  expect((await gateway.run('status')).stdout.replaceAll(/\s+/g, ' ')).toContain('was revoked by list 1');
});

test(
  'a gateway whose only key is revoked reports it, installs nothing, and gets a new key from root',
  LONG,
  async () => {
    const gateway = await alone();
    await taken(gateway, await release('1.0.0', 'old'));
    await taken(gateway, await list(gateway, 1, 'old', '--revoke-keys', file('old.pem')));
    await refused(gateway, await release('2.0.0', 'old'), 'key-revoked');
    await refused(gateway, await list(gateway, 2, 'old', '--keys', file('next.pem')), 'key-revoked');
    expect((await gateway.run('status')).stdout.replaceAll(/\s+/g, ' ')).toContain('no trusted key is left');
    const page = (await gateway.run('status')).stdout.replaceAll(/\s+/g, ' ');
    expect(page).toContain(
      `the release that is installed is signed by ${keys.old.trusted.fingerprint}, revoked by list 1`,
    );
    expect(page).toContain('signed by release.pem');
    const told = {
      state: 'broken',
      problems: expect.arrayContaining(['no-trusted-key', 'release-revoked']) as unknown,
    };
    expect(await gateway.json('status')).toMatchObject(told);
    expect(await gateway.run('status', '--exit-code')).toMatchObject({ exitCode: 2 });
    expect(await gateway.run('doctor')).not.toMatchObject({ exitCode: 0 });
    expect(await running(gateway)).toBe('healthy root 1.0.0');
    await writeFile(join(gateway.directory, 'release.pem'), keys.next.publicPem);
    await taken(gateway, await release('3.0.0', 'next'));
    expect(await running(gateway)).toBe('healthy root 3.0.0');
  },
);

describe('a list from the service', () => {
  async function serve(versions: Readonly<Record<string, string>>): Promise<StandIn> {
    const firmware = Object.entries(versions).map(async ([name, path]) => ({
      id: `id-${name}`,
      name,
      firmware: bufferContent(await readFile(path)),
    }));
    return untilTestEnds(
      await startStandIn({ versions: [{ id: 'v0' }, ...(await Promise.all(firmware))], targetVersionId: 'v0' }),
    );
  }

  test('takes effect without a reboot, once; the service is notified, and the next release follows', LONG, async () => {
    const made = await alone();
    const first = await release('1.0.0', 'old');
    const lists = await list(made, 1, 'old', '--keys', file('next.pem'), '--revoke-keys', file('old.pem'));
    const service = await serve({ '1.0.0': first, 'trust-1': lists, '2.0.0': await release('2.0.0', 'next') });
    const gateway = await gatewayAt(service.url, 'target');
    service.world.targetVersionId = 'id-1.0.0';
    expect(await settle(gateway, '--update-now')).toMatchObject({ exitCode: 0 });

    service.world.targetVersionId = 'id-trust-1';
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
    expect(gateway.rebootRequested).toBe(false);
    expect(service.world.things[0]?.currentVersionId).toBe('id-trust-1');
    expect(await running(gateway)).toBe('healthy root 1.0.0');
    expect((await gateway.run('--update-now')).stdout).toContain('Nothing to do: trust-1');

    service.world.targetVersionId = 'id-2.0.0';
    expect(await settle(gateway, '--update-now')).toMatchObject({ exitCode: 0 });
    expect(await running(gateway)).toBe('healthy root 2.0.0');
    expect(service.world.things[0]?.currentVersionId).toBe('id-2.0.0');
  });

  test('takes effect while updates are on hold; an unrelated release waits', LONG, async () => {
    const made = await alone();
    const bad = await release('1.0.0', 'old');
    const service = await serve({
      '1.0.0': bad,
      'trust-1': await list(made, 1, 'old', '--revoke-releases', bad),
      '2.0.0': await release('2.0.0', 'old'),
    });
    const gateway = await gatewayAt(service.url, 'target');
    expect(await gateway.run('hold')).toMatchObject({ exitCode: 0 });
    const held = { exitCode: 77, stdout: expect.stringContaining('an operator paused updates') as string };
    service.world.targetVersionId = 'id-1.0.0';
    expect(await gateway.run('--update-now')).toMatchObject(held);
    service.world.targetVersionId = 'id-trust-1';
    expect((await gateway.run('check')).stdout).toContain('trust-1 would take effect: agent --update-now');
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
    expect(service.world.things[0]?.currentVersionId).toBe('id-trust-1');
    const page = (await gateway.run('status')).stdout.replaceAll(/\s+/g, ' ');
    expect(page).toContain('Trust list number 1 is in effect');
    expect((await gateway.run('history')).stdout).toMatch(/ {2}trust list 1: in effect/);
    expect((await gateway.run('check')).stdout).toContain('Nothing to do: trust-1 is in effect.');
    service.world.targetVersionId = 'id-2.0.0';
    expect(await gateway.run('--update-now')).toMatchObject(held);
    expect(await gateway.run('resume')).toMatchObject({ exitCode: 0 });
    await refused(gateway, bad, 'release-revoked');
    expect(await running(gateway)).toBe('healthy root 0');
  });

  // Regression: "trust-1 is installed", also for a client that followed the daemon's check.
  testInFull('that the daemon applies is named as a list in its log, and as in effect in status', async () => {
    const made = await alone();
    const service = await serve({ 'trust-1': await list(made, 1, 'old', '--keys', file('next.pem')) });
    const gateway = await gatewayAt(service.url, 'target');
    service.world.targetVersionId = 'id-trust-1';
    const lines: string[] = [];
    const daemon = await gateway.startDaemon((line) => lines.push(line));
    const status = async (): Promise<string> => (await gateway.run('status', '--json')).stdout;
    await expect
      .poll(status, { timeout: 120_000, interval: 500 })
      .toContain('"list":{"number":1,"versionId":"id-trust-1"}');
    await expect.poll(() => lines.join('\n'), { timeout: 120_000 }).toContain('trust list 1 is in effect');
    expect(JSON.parse(await status())).toMatchObject({ idleCode: 'up-to-date', lastOutcome: { list: 1 } });
    expect(lines.join('\n')).not.toContain('trust-1 is installed');
    expect(await stop(daemon)).toBe(0);
  });

  testInFull(
    'is found among the versions to which a gateway can switch, and the release after it',
    async () => {
      const made = await alone();
      const bad = await release('1.6.0', 'old');
      const service = await serve({
        '1.0.0': await release('1.0.0', 'old'),
        '1.6.0': bad,
        'trust-1': await list(made, 1, 'old', '--revoke-releases', bad),
        '2.0.0': await release('2.0.0', 'old'),
      });
      const gateway = await gatewayAt(service.url, 'updates');
      const offer = (from: string, ...to: readonly string[]) => service.world.setUpdates(from, to);
      service.world.currentVersionId = 'id-1.0.0';
      expect(await settle(gateway, '--update-now')).toMatchObject({ exitCode: 0 });
      offer('id-1.0.0', 'id-1.6.0', 'id-trust-1');
      expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
      offer('id-trust-1', 'id-1.6.0', 'id-2.0.0', 'id-trust-1');
      expect(await settle(gateway, '--update-now')).toMatchObject({ exitCode: 0 });
      expect(await running(gateway)).toBe('healthy root 2.0.0');
      await refused(gateway, bad, 'release-revoked');
    },
    LONG,
  );

  test('is not fetched again by a gateway with an unknown running version', async () => {
    const made = await alone();
    const service = await serve({ 'trust-1': await list(made, 1, 'old', '--keys', file('next.pem')) });
    const gateway = await gatewayAt(service.url, 'target');
    service.world.targetVersionId = 'id-trust-1';
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
    expect((await gateway.run('--update-now')).stdout).toContain('Nothing to do: trust-1');
    expect((await gateway.run('status')).stdout).not.toContain('on trial');
  });
});

testInFull(
  'a list whose file in the state directory was damaged lets nothing be installed before the next list, of a key that it did not revoke',
  async () => {
    const gateway = await alone();
    await taken(gateway, await list(gateway, 1, 'old', '--keys', file('next.pem'), '--revoke-keys', file('old.pem')));
    await writeFile(join(gateway.directory, 'state/trust.json'), '{"format":');
    await refused(gateway, await release('1.0.0', 'next'), 'trust-list-damaged');
    expect(await gateway.run('status', '--exit-code')).toMatchObject({
      exitCode: 2,
      stdout: expect.stringContaining('trust.json') as unknown,
    });
    await refused(gateway, await list(gateway, 2, 'old'), 'key-revoked');
    await taken(gateway, await list(gateway, 3, 'next', '--keys', file('next.pem')));
    await taken(gateway, await release('1.0.0', 'next'));
  },
);

test('rejects a key that other users may write, until the command in the message was typed', async () => {
  const gateway = await alone();
  const key = join(gateway.directory, 'release.pem');
  await chmod(key, 0o666);
  const good = await release('1.0.0', 'old');
  const done = await gateway.run('install', good);
  expect(done).toMatchObject({ exitCode: 78 });
  expect(await gateway.run('status', '--exit-code')).toMatchObject({ exitCode: 2 });
  const [, mend = 'false'] = /fix it with:\s+(chmod go-w \S+)/.exec(done.stderr.replaceAll(/\s+/g, ' ')) ?? [];
  await tool(['sh', '-c', mend]);
  await taken(gateway, good);
});
