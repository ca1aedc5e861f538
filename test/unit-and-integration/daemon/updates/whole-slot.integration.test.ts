import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, describe, expect, test } from 'vitest';

import { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import type { Finished } from '../../../fakes/machine/file-gateway.ts';
import { tool } from '../../../fakes/machine/tool.ts';
import { folderUntilTestEnds, untilTestEnds } from '../../../until-test-ends.ts';
import { makeKeyPair } from '../../firmware/artifact/keys.ts';

const keys = makeKeyPair('ecdsa-p256', 'release.pem');
const NOBODY = 'http://127.0.0.1:9';
const SLOT_BYTES = 1_000_000;

function rootOf(version: string): Buffer {
  return Buffer.alloc(300_000, `healthy root ${version}\n`, 'latin1');
}

function bootOf(version: string): Buffer {
  return Buffer.alloc(50_000, `boot ${version}\n`, 'latin1');
}

let folder: string;
let gateway: FileGateway;

/** A gateway with two pairs of slots, as a Raspberry Pi has; slot A is what the factory made, slot B is blank. */
beforeEach(async () => {
  folder = folderUntilTestEnds();
  await writeFile(join(folder, 'private.pem'), keys.privatePem);
  const [A, B] = [join(folder, 'boot-a'), join(folder, 'boot-b')];
  await writeFile(A, Buffer.concat([bootOf('0'), Buffer.alloc(SLOT_BYTES - 50_000)]));
  await writeFile(B, Buffer.alloc(SLOT_BYTES));
  gateway = untilTestEnds(
    await FileGateway.create({
      serviceUrl: NOBODY,
      image: rootOf('0'),
      slotBytes: SLOT_BYTES,
      trustedKey: keys.publicPem,
      updateToml: 'follow = "none"',
      reports: false,
      healthService: false,
      extraToml: `[targets.boot]\nkind = "slots"\nslots = { A = "${A}", B = "${B}" }\n`,
    }),
  );
});

type Parts = Readonly<Record<'root' | 'boot', Buffer>>;

/** Written by mender-artifact, for the parts that it has. */
async function release(name: string, parts: Partial<Parts>): Promise<string> {
  const all = Object.entries({ gateway: parts.root, boot: parts.boot });
  const files = all.flatMap(([target, image]) => (image === undefined ? [] : [[target, image] as const]));
  const metaData = join(folder, `${name}.json`);
  const targets = Object.fromEntries(files.map(([target]) => [`${target}.img`, target]));
  await writeFile(metaData, JSON.stringify({ targets }));
  const options: string[] = [];
  for (const [target, image] of files) {
    const file = join(folder, `${target}.img`);
    await writeFile(file, image);
    options.push('--file', file);
  }
  const output = join(folder, `${name}.mender`);
  const naming = ['--artifact-name', name, '--device-type', 'demo-gateway', '--compression', 'none'];
  const rest = ['--meta-data', metaData, '--key', join(folder, 'private.pem'), '--output-path', output];
  await tool(['mender-artifact', 'write', 'module-image', '--type', 'thing-firmware', ...naming, ...options, ...rest]);
  return output;
}

/** Changes it without a key. */
async function tamper(path: string, from: string, to: string): Promise<string> {
  const bytes = await readFile(path);
  const at = bytes.indexOf(from, 0, 'latin1');
  expect(at).toBeGreaterThan(0);
  bytes.write(to, at, 'latin1');
  await writeFile(path, bytes);
  return path;
}

/** Installs it as a technician, and waits for the result. */
async function install(file: string): Promise<Finished> {
  const installed = await gateway.run('install', file);
  if (!gateway.rebootRequested) return installed;
  gateway.boot();
  return gateway.run('--update-now');
}

async function held(slot: 'A' | 'B'): Promise<{ readonly root: string; readonly boot: string }> {
  const boot = await readFile(join(folder, `boot-${slot.toLowerCase()}`), 'latin1');
  const root = (await gateway.imageOf(slot, 30)).toString('latin1');
  return { root: root.split('\n')[0] ?? '', boot: boot.split('\n')[0] ?? '' };
}

/** The boot environment. */
async function order(): Promise<string> {
  const text = await readFile(join(gateway.directory, 'boot/environment'), 'utf8');
  return /ORDER="([^"]*)"/.exec(text)?.[1] ?? '';
}

describe('a gateway with a boot partition and a root file system in each slot', () => {
  test('never boots a rejected image, whichever way the rest of the slot is renewed', async () => {
    await install(await release('1', { root: rootOf('1'), boot: bootOf('1') }));
    expect(gateway.booted).toBe('B');
    const forged = await tamper(
      await release('2', { root: rootOf('2'), boot: bootOf('2') }),
      'healthy root 2',
      'healthy ATTACK',
    );
    expect(await install(forged)).toMatchObject({ exitCode: 77 });
    expect((await held('A')).root).toBe('healthy ATTACK');
    const bootOnly = await release('3', { boot: bootOf('3') });
    expect(await install(bootOnly)).toMatchObject({ exitCode: 0 });
    expect(await held(gateway.booted)).toEqual({ root: 'healthy root 1', boot: 'boot 3' });
  });

  test('installs nothing twice: the running version is not staged again, and the content of the other slot is tried immediately', async () => {
    const [one, two] = [
      await release('1', { root: rootOf('1'), boot: bootOf('1') }),
      await release('2', { root: rootOf('2'), boot: bootOf('2') }),
    ];
    await install(one);
    expect(await gateway.run('install', one)).toMatchObject({ exitCode: 0 });
    expect(gateway.rebootRequested).toBe(false);
    expect((await held('A')).root).toBe('healthy root 0');
    await install(two);
    expect(gateway.booted).toBe('A');
    const again = await gateway.run('install', one);
    expect(again.stderr).toContain('staged: 0.3 MiB, 0.3 MiB of it unchanged in the slot');
    expect(gateway.boot()).toBe('B');
  });

  test('rolls back to the factory image, and reports that it was never verified', async () => {
    await install(await release('1', { root: rootOf('1'), boot: bootOf('1') }));
    expect(await gateway.run('rollback')).toMatchObject({ exitCode: 0 });
    expect(gateway.boot()).toBe('A');
    await gateway.run('--update-now');
    const status = JSON.stringify(await gateway.json('status'));
    expect(status).toContain(
      'not verified: gateway (the agent has no record of its content), boot (the agent has no record of its content)',
    );
    expect(await held('A')).toEqual({ root: 'healthy root 0', boot: 'boot 0' });
  });

  test('refuses a release of one partition where nothing vouches for the other, before a byte is written', async () => {
    const refused = await install(await release('1', { boot: bootOf('1') }));
    expect(refused).toMatchObject({ exitCode: 77 });
    expect(refused.stderr).toContain('slot-incomplete');
    expect(await held('B')).toEqual({ root: '\0'.repeat(30), boot: '\0'.repeat(SLOT_BYTES) });
    expect(await order()).toBe('A B');
    expect(gateway.booted).toBe('A');
  });
});
