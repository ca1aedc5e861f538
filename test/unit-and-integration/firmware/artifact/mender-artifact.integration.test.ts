import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { decompress } from '../../../../src/firmware/compression/compression.ts';
import { howMuch } from '../../../full.ts';
import { attempt, refuse, stage } from './attempt.ts';
import { buildArtifact, writeArtifact } from './build-artifact.ts';
import { flipped, misdeedOf } from './corrupt.ts';
import { makeKeyPair } from './keys.ts';

/** Artifacts by Debian's mender-artifact, read by us; and artifacts by the tests' own builder, read by mender-artifact. */
const ecdsa = makeKeyPair('ecdsa-p256');
const rsa = makeKeyPair('rsa');
const keys = [rsa.trusted, ecdsa.trusted];
const here = { keys, decompress, chunkSizes: [64 * 1024] };

const longName = `${'long-'.repeat(25)}name.bin`;
const contents = {
  'rootfs.ext4': randomBytes(300_000),
  'meter.hex': Buffer.from(':00000001FF\n'),
  [longName]: randomBytes(700),
  'meta.json': Buffer.from(JSON.stringify({ targets: { 'rootfs.ext4': 'gateway', 'meter.hex': 'meter' } })),
  'ecdsa.key': Buffer.from(ecdsa.privatePem),
  'ecdsa.pem': Buffer.from(ecdsa.publicPem),
  'rsa.key': Buffer.from(rsa.privatePem),
  'rsa.pem': Buffer.from(rsa.publicPem),
  ArtifactInstall_Enter_00: Buffer.from('#!/bin/sh\n'),
};

let folder = '';
let count = 0;
const run = promisify(execFile);

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'artifact-'));
  for (const [name, content] of Object.entries(contents)) await writeFile(join(folder, name), content);
});
afterAll(async () => {
  await rm(folder, { recursive: true });
});

async function menderArtifact(...words: readonly string[]): Promise<string> {
  const { stdout, stderr } = await run('mender-artifact', words, { cwd: folder });
  return stdout + stderr;
}

async function written(kind: 'rootfs-image' | 'module-image', ...words: readonly string[]): Promise<Buffer> {
  count += 1;
  const output = `${count}.mender`;
  await menderArtifact('write', kind, '-n', 'release-2', '-t', 'gw', '-o', output, ...words);
  return readFile(join(folder, output));
}

const rootfs = ['-f', 'rootfs.ext4'];
const both = ['-T', 'thing-firmware', '-f', 'rootfs.ext4', '-f', 'meter.hex', '-m', 'meta.json'];

describe.each(['none', 'gzip', 'lzma'])('with compression %s', (compression) => {
  test.each([
    ['ecdsa.key', ecdsa.trusted.fingerprint],
    ['rsa.key', rsa.trusted.fingerprint],
  ])('a root file system signed with %s is staged', async (key, signedBy) => {
    const artifact = await written('rootfs-image', ...rootfs, '--compression', compression, '-k', key);
    const { gateway, staged } = await stage(artifact, here);
    expect(gateway.contents).toEqual(new Map([['rootfs.ext4', contents['rootfs.ext4']]]));
    expect(staged.header).toMatchObject({
      name: 'release-2',
      signedBy,
      payloads: [{ fileName: 'rootfs.ext4', target: 'rootfs-image' }],
    });
  });

  test('several files of one payload go to the targets in the meta-data', async () => {
    const artifact = await written('module-image', ...both, '--compression', compression, '-k', 'ecdsa.key');
    const { gateway, staged } = await stage(artifact, here);
    expect(gateway.contents).toEqual(
      new Map([
        ['rootfs.ext4', contents['rootfs.ext4']],
        ['meter.hex', contents['meter.hex']],
      ]),
    );
    expect(staged.header.payloads.map(({ target }) => target)).toEqual([{ name: 'gateway' }, { name: 'meter' }]);
  });

  test('an unsigned one is staged only where that is allowed', async () => {
    const artifact = await written('rootfs-image', ...rootfs, '--compression', compression);
    expect((await refuse(artifact, here)).error.code).toBe('artifact-unsigned');
    const { staged } = await stage(artifact, { ...here, allowUnsigned: true });
    expect(staged.payloads[0]?.promise).toEqual({ kind: 'unsigned-permitted' });
  });

  test('one signed with another key is refused', async () => {
    const artifact = await written('rootfs-image', ...rootfs, '--compression', compression, '-k', 'ecdsa.key');
    const { error, gateway } = await refuse(artifact, { ...here, keys: [makeKeyPair('ecdsa-p256').trusted] });
    expect(error.code).toBe('signature-invalid');
    expect(gateway.events).toEqual([]);
  });
});

describe('what an artifact demands and brings', () => {
  const demanding =
    '-t gw-2 -N release-0 -N release-1 -G stable -g stable -d bootloader:7 -p kernel:6.1 --clears-provides data.* -k ecdsa.key'.split(
      ' ',
    );
  const installed = {
    artifact_name: 'release-1',
    artifact_group: 'stable',
    bootloader: '7',
    'data.x': '1',
    other: '2',
  };

  test('is met and handed on', async () => {
    const artifact = await written('module-image', ...both, ...demanding);
    const { staged } = await stage(artifact, { ...here, deviceType: 'gw-2', installed });
    expect(staged.provides).toEqual({
      artifact_name: 'release-2',
      artifact_group: 'stable',
      kernel: '6.1',
      'rootfs-image.thing-firmware.version': 'release-2',
      bootloader: '7',
      other: '2',
    });
  });

  test.each([
    ['device type', { deviceType: 'gw-3' }, 'device-type-mismatch'],
    ['artifact', { installed: { ...installed, artifact_name: 'release-9' } }, 'depends-unmet'],
    ['group', { installed: { ...installed, artifact_group: 'beta' } }, 'depends-unmet'],
    ['dependency', { installed: { ...installed, bootloader: '6' } }, 'depends-unmet'],
  ])('is refused on another %s', async (_, circumstances, code) => {
    const artifact = await written('module-image', ...both, ...demanding);
    const { error, gateway } = await refuse(artifact, { ...here, installed, ...circumstances });
    expect(error.code).toBe(code);
    expect(gateway.events).toEqual([]);
  });

  test('of a root file system replaces what is known of the one before', async () => {
    const before = { 'rootfs-image.checksum': 'old', 'rootfs-image.old': '1', other: '2' };
    const { staged } = await stage(await written('rootfs-image', ...rootfs, '-k', 'rsa.key'), {
      ...here,
      installed: before,
    });
    expect(staged.provides).toEqual({
      artifact_name: 'release-2',
      'rootfs-image.checksum': staged.payloads[0]?.written.digest.slice('sha256:'.length),
      'rootfs-image.version': 'release-2',
      other: '2',
    });
  });
});

describe('unusual artifacts', () => {
  test('a file name too long for a tar header is staged', async () => {
    await writeFile(join(folder, 'long.json'), JSON.stringify({ targets: { [longName]: 'meter' } }));
    const words = ['-T', 'x', '-f', longName, '-m', 'long.json', '-k', 'ecdsa.key'];
    const { gateway } = await stage(await written('module-image', ...words), here);
    expect(gateway.contents).toEqual(new Map([[longName, contents[longName]]]));
  });

  test.each([
    ['format version 2', ['rootfs-image', ...rootfs, '-v', '2'], 'artifact-version'],
    ['a type without targets', ['module-image', '-T', 'deb', '-f', 'meter.hex'], 'payload-type'],
    ['state scripts', ['rootfs-image', ...rootfs, '-s', 'ArtifactInstall_Enter_00'], 'artifact-scripts'],
    [
      'an unsigned part',
      ['module-image', ...both, '--augment-type', 'y', '--augment-file', longName],
      'artifact-augmented',
    ],
  ] as const)('with %s are refused', async (_, [kind, ...words], code) => {
    const { error, gateway } = await refuse(await written(kind, ...words, '-k', 'ecdsa.key'), here);
    expect(error).toMatchObject({ code, exit: 'refused' });
    expect(gateway.events).toEqual([]);
  });

  test('without a payload are refused', async () => {
    const words = [
      'write',
      'bootstrap-artifact',
      '-n',
      'release-2',
      '-t',
      'gw',
      '-k',
      'ecdsa.key',
      '-o',
      'empty.mender',
    ];
    await menderArtifact(...words);
    const { error } = await refuse(await readFile(join(folder, 'empty.mender')), here);
    expect(error.code).toBe('payload-type');
  });
});

describe('corrupted byte by byte', () => {
  const small = new Map([['meter.hex', contents['meter.hex']]]);
  const words = ['-T', 'x', '-f', 'meter.hex', '-m', 'small.json', '-k', 'ecdsa.key', '--compression'];
  beforeAll(async () => {
    await writeFile(join(folder, 'small.json'), JSON.stringify({ targets: { 'meter.hex': 'meter' } }));
  });

  test.each([
    ['none', howMuch(1, 17)],
    ['gzip', howMuch(3, 31)],
    ['lzma', howMuch(61, 307)],
  ])('an artifact with compression %s is never taken for another (every %i. byte)', async (compression, stride) => {
    const artifact = await written('module-image', ...words, compression);
    expect((await attempt(artifact, here)).kind).toBe('staged');
    const misdeeds: string[] = [];
    for (let at = 0; at < artifact.length; at += stride) {
      const misdeed = await misdeedOf(flipped(artifact, at, 1 << (at % 8)), small, here);
      if (misdeed !== undefined) misdeeds.push(`byte ${at}: ${misdeed}`);
    }
    expect(misdeeds).toEqual([]);
  });

  test.each([
    ['none', howMuch(1, 29)],
    ['gzip', howMuch(7, 59)],
    ['lzma', howMuch(97, 389)],
  ])('an artifact with compression %s is never taken in part (every %i. length)', async (compression, stride) => {
    const artifact = await written('module-image', ...words, compression);
    const taken: number[] = [];
    for (let length = 0; length < artifact.length; length += stride) {
      const outcome = await attempt(artifact.subarray(0, length), here);
      if (outcome.kind !== 'refused' || outcome.gateway.unclosed !== 0) taken.push(length);
    }
    expect(taken).toEqual([]);
  });
});

describe("the tests' own artifacts", () => {
  const options = {
    name: 'release-2',
    devices: ['gw', 'gw-2'],
    files: [
      { name: 'rootfs.ext4', content: contents['rootfs.ext4'] },
      { name: longName, content: contents[longName] ?? Buffer.alloc(0) },
    ],
    targets: { 'rootfs.ext4': 'gateway', [longName]: 'meter' },
    provides: { kernel: '6.1' },
    depends: { bootloader: ['7', '8'] },
    clears: ['data.*'],
    group: 'stable',
  };

  test.each(['none', 'gzip', 'xz'] as const)(
    'are valid for mender-artifact with compression %s',
    async (compression) => {
      for (const [pair, publicKey] of [
        [ecdsa, 'ecdsa.pem'],
        [rsa, 'rsa.pem'],
      ] as const) {
        await writeArtifact(join(folder, 'own.mender'), { ...options, compression, key: pair.privateKey });
        expect(await menderArtifact('validate', '-k', publicKey, 'own.mender')).toContain('validated successfully');
      }
      const shown = await menderArtifact('read', 'own.mender');
      for (const text of ['release-2', '[gw gw-2]', 'kernel: 6.1', 'stable', longName, 'data.*'])
        expect(shown).toContain(text);
    },
  );

  test.each(['none', 'gzip', 'zstd', 'xz'] as const)('are staged with compression %s', async (compression) => {
    const artifact = await buildArtifact({ ...options, compression, key: ecdsa.privateKey });
    const { gateway } = await stage(artifact, { ...here, installed: { bootloader: '8' } });
    expect(gateway.contents.get('rootfs.ext4')).toEqual(contents['rootfs.ext4']);
    expect(gateway.contents.get(longName)).toEqual(contents[longName]);
  });
});
