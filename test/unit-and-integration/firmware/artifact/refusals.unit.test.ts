import { describe, expect, test } from 'vitest';

import { refuse } from './attempt.ts';
import type { Circumstances } from './attempt.ts';
import { buildArtifact } from './build-artifact.ts';
import type { ArtifactOptions, Edits } from './build-artifact.ts';
import { makeKeyPair } from './keys.ts';
import { tarEnd, tarFile } from './tar-blocks.ts';
import type { TarMemberBytes } from './tar-blocks.ts';

const { privateKey: key, trusted } = makeKeyPair('ecdsa-p256');
const here: Circumstances = { keys: [trusted], installed: { artifact_name: 'release-1', artifact_group: 'stable' } };

const content = Buffer.from('content');
const files = [{ name: 'a', content }];
const valid: ArtifactOptions = { name: 'release-2', devices: ['gw'], files, key };

/** Asserts that a rejection wrote nothing, called nothing, and has a message of one line. */
async function refusalOf(
  options: Partial<ArtifactOptions>,
): Promise<{ readonly code: string; readonly message: string }> {
  const { error, gateway } = await refuse(await buildArtifact({ ...valid, ...options }), here);
  expect(error).toMatchObject({ exit: 'refused', remedy: 'give-up' });
  expect(error.message).toMatch(/^artifact[\x20-\x7e]+$/);
  expect(gateway.events).toEqual([]);
  return error;
}

function malformed(why: string): object {
  const message: unknown = expect.stringContaining(why);
  return { code: 'artifact-malformed', message };
}

function member(name: string, text = ''): TarMemberBytes {
  return { name, content: Buffer.from(text) };
}

describe('rejected before any call: the format', () => {
  test.each([
    ['version 2', '{"format":"mender","version":2}'],
    ['version 4', '{"format":"mender","version":4}'],
    ['another format', '{"format":"other","version":3}'],
  ])('%s', async (_, text) => {
    expect((await refusalOf({ edit: { version: () => text } })).code).toBe('artifact-version');
  });

  test.each(['', '3', '{', '[]', '{"format":"mender"}', '{"format":"mender","version":"3"}', '\u00ff'])(
    'a version that is %j',
    async (text) => {
      expect((await refusalOf({ edit: { version: () => text } })).code).toBe('artifact-malformed');
    },
  );

  test.each<[string, string, Edits['members']]>([
    ['no version', '"manifest" where version should be', (members) => members.slice(1)],
    [
      'no manifest',
      '"manifest.sig" where manifest should be',
      (members) => members.filter(({ name }) => name !== 'manifest'),
    ],
    [
      'the manifest last',
      'where version should be',
      (members) => members.toSorted(({ name }) => (name === 'manifest' ? 1 : -1)),
    ],
    ['no header', '"data/0000.tar" where header.tar should be', (members) => members.slice(0, -1)],
    [
      'a stranger before the header',
      '"what" where header.tar should be',
      (members) => [...members.slice(0, 3), member('what'), ...members.slice(3)],
    ],
    [
      'a second signature',
      '"manifest.sig2" where header.tar should be',
      (members) => [...members.slice(0, 3), member('manifest.sig2'), ...members.slice(3)],
    ],
    ['nothing but a version', '"data/0000.tar" where manifest should be', (members) => members.slice(0, 1)],
    [
      'a header of another compression',
      '"header.tar.gz" where header.tar should be',
      (members) => renamed(members, 'header.tar', 'header.tar.gz'),
    ],
    [
      'a version without measure',
      '"version" is larger than 4096 bytes',
      (members) => [member('version', ' '.repeat(5000)), ...members.slice(1)],
    ],
    [
      'a signature without measure',
      '"manifest.sig" is larger than 8192 bytes',
      (members) => [...members.slice(0, 2), member('manifest.sig', ' '.repeat(9000))],
    ],
    [
      'a manifest without measure',
      '"manifest" is larger than 131072 bytes',
      (members) => [...members.slice(0, 1), member('manifest', ' '.repeat(200_000))],
    ],
  ])('%s', async (_, why, members) => {
    expect(await refusalOf({ edit: { members } })).toMatchObject(malformed(why));
  });

  test.each(['manifest-augment', 'header-augment.tar.gz'])('the unsigned part %s', async (name) => {
    const members: Edits['members'] = (all) => [...all.slice(0, 3), member(name), ...all.slice(3)];
    expect((await refusalOf({ edit: { members } })).code).toBe('artifact-augmented');
  });

  test.each<[string, string, Edits['manifest']]>([
    ['empty', 'does not list "version"', () => ''],
    ['without its last line end', 'its last line has no end', (text) => text.slice(0, -1)],
    ['with a line twice', '"data/0000/a" is listed twice', (text) => `${text}${text.split('\n')[0]}\n`],
    ['with an empty line', 'the line "" is garbled', (text) => `${text}\n`],
    ['with digests in capitals', 'is garbled', (text) => text.toUpperCase()],
    ['with one space for two', 'is garbled', (text) => text.replaceAll('  ', ' ')],
    ['with half a digest', 'is garbled', (text) => text.slice(32)],
    ['without the version', 'does not list "version"', (text) => without(text, '  version')],
    ['without a header', 'exactly one header', (text) => without(text, '  header.tar')],
    ['with two headers', 'exactly one header', (text) => `${text}${'0'.repeat(64)}  header.tar.gz\n`],
    [
      'with a name that climbs out',
      '"data/0000/.." is not the name',
      (text) => text.replace('data/0000/a', 'data/0000/..'),
    ],
    [
      'with a name in a folder',
      '"data/0000/a/b" is not the name',
      (text) => text.replace('data/0000/a', 'data/0000/a/b'),
    ],
    ['with an absolute name', '"/data/0000/a" is not the name', (text) => text.replace('data/0000/a', '/data/0000/a')],
    ['with a file of another kind', '"scripts/a" is not the name', (text) => text.replace('data/0000/a', 'scripts/a')],
    [
      'with a payload that the header lacks',
      'files of payload 1, the header not',
      (text) => text.replace('data/0000/a', 'data/0001/a'),
    ],
    ['with no file', 'payload 0 has no files', (text) => without(text, '  data/0000/a')],
  ])('a manifest %s', async (_, why, manifest) => {
    expect(await refusalOf({ edit: { manifest } })).toMatchObject(malformed(why));
  });

  test('a manifest with more files than anyone needs', async () => {
    const many = Array.from({ length: 257 }, (_, number) => `${'0'.repeat(64)}  data/0000/f${number}\n`).join('');
    expect((await refusalOf({ edit: { manifest: (text) => text + many } })).message).toContain('more than 256 files');
  });

  test.each(['  version', '  header.tar'])('a digest that does not match%s', async (name) => {
    const manifest: Edits['manifest'] = (text) =>
      text
        .split('\n')
        .map((line) => (line.endsWith(name) ? `${'0'.repeat(64)}${name}` : line))
        .join('\n');
    expect((await refusalOf({ edit: { manifest } })).code).toBe('checksum-mismatch');
  });
});

describe('rejected before any call: the header', () => {
  test.each<[string, string, Edits['header']]>([
    ['header-info not first', 'where header-info should be', (members) => members.toReversed()],
    ['nothing', 'its end where header-info should be', () => []],
    [
      'no type-info',
      'where headers/0000/type-info should be',
      (members) => members.filter(({ name }) => !name.endsWith('type-info')),
    ],
    [
      'meta-data before type-info',
      'where headers/0000/type-info should be',
      ([info, type, meta]) => [info, meta, type].filter((one) => one !== undefined),
    ],
    [
      'a second payload that header-info lacks',
      '"headers/0001/type-info" where its end should be',
      (members) => [...members, member('headers/0001/type-info', '{}')],
    ],
    ['a stranger', '"what" where its end should be', (members) => [...members, member('what')]],
    ['header-info that is not JSON', 'header-info: it is not JSON', (members) => replaced(members, 'header-info', '{')],
    [
      'header-info in bad UTF-8',
      'header-info: it is not JSON',
      (members) => [{ name: 'header-info', content: Buffer.of(0xff) }, ...members.slice(1)],
    ],
    [
      'type-info of an empty type',
      'contradicts header-info',
      (members) =>
        replaced(members, 'header-info', textOf(members, 'header-info').replace('rootfs-image', 'x')).map((one) =>
          one.name.endsWith('type-info') ? member(one.name, '{"type":""}') : one,
        ),
    ],
    [
      'type-info of another type',
      'contradicts header-info',
      (members) => replaced(members, 'headers/0000/type-info', '{"type":"other"}'),
    ],
    [
      'type-info with strangers',
      'Unrecognized key: "x"',
      (members) => replaced(members, 'headers/0000/type-info', '{"type":"rootfs-image","x":1}'),
    ],
    [
      'provides that are lists',
      '"artifact_provides.a"',
      (members) =>
        replaced(members, 'headers/0000/type-info', '{"type":"rootfs-image","artifact_provides":{"a":["b"]}}'),
    ],
    [
      'meta-data that is not JSON',
      'headers/0000/meta-data: it is not JSON',
      (members) => replaced(members, 'headers/0000/meta-data', '{'),
    ],
    [
      'meta-data whose targets are a list',
      '"targets"',
      (members) => replaced(members, 'headers/0000/meta-data', '{"targets":["a"]}'),
    ],
    [
      'header-info without measure',
      '"header-info" is larger than 262144 bytes',
      (members) => replaced(members, 'header-info', ' '.repeat(300_000)),
    ],
  ])('%s', async (_, why, header) => {
    expect(await refusalOf({ edit: { header } })).toMatchObject(malformed(why));
  });

  test.each<[string, string, Edits['headerInfo']]>([
    ['without payloads', '"payloads"', (info) => ({ ...info, payloads: [] })],
    [
      'with more payloads than anyone needs',
      '"payloads"',
      (info) => ({ ...info, payloads: Array.from({ length: 17 }, () => ({ type: 'x' })) }),
    ],
    ['with a payload without a type', '"payloads.0.type"', (info) => ({ ...info, payloads: [{}] })],
    ['without a name', '"artifact_provides.artifact_name"', (info) => ({ ...info, artifact_provides: {} })],
    [
      'with an empty name',
      '"artifact_provides.artifact_name"',
      (info) => ({ ...info, artifact_provides: { artifact_name: '' } }),
    ],
    ['without devices', '"artifact_depends.device_type"', (info) => ({ ...info, artifact_depends: {} })],
    [
      'with an empty list of devices',
      '"artifact_depends.device_type"',
      (info) => ({ ...info, artifact_depends: { device_type: [] } }),
    ],
    ['with strangers', 'Unrecognized key: "what"', (info) => ({ ...info, what: 1 })],
    ['that is a list', 'expected object', () => []],
  ])('header-info %s', async (_, why, headerInfo) => {
    expect(await refusalOf({ edit: { headerInfo } })).toMatchObject(malformed(why));
  });

  test('state scripts, which would never run', async () => {
    const header: Edits['header'] = ([info, ...rest]) =>
      [info, member('scripts/ArtifactInstall_Enter_00', '#!/bin/sh'), ...rest].filter((one) => one !== undefined);
    expect((await refusalOf({ edit: { header } })).code).toBe('artifact-scripts');
  });

  test('refuses a truncated header archive', async () => {
    expect((await refusalOf({ edit: { headerTar: (tar) => tar.subarray(0, -600) } })).code).toBe('artifact-corrupt');
  });

  test('tar tricks in the header archive', async () => {
    const twice = await refusalOf({ edit: { header: (members) => [...members, member('header-info')] } });
    expect(twice.code).toBe('tar-duplicate');
    expect((await refusalOf({ edit: { header: () => [member('../header-info')] } })).code).toBe('tar-name');
  });
});

describe('rejected before any call: incompatible content', () => {
  test('another device type', async () => {
    const { code, message } = await refusalOf({ devices: ['other', 'third'] });
    expect(code).toBe('device-type-mismatch');
    expect(message).toBe('artifact "release-2" does not fit: it is for "other" or "third", this gateway is "gw"');
  });

  test.each<[string, Partial<ArtifactOptions>]>([
    ['another artifact', { artifactDepends: { artifact_name: ['release-0'] } }],
    ['another group', { artifactDepends: { artifact_group: ['beta'] } }],
    ['what nothing provides', { artifactDepends: { 'rootfs-image.checksum': ['00'] } }],
    ['what nothing provides, of a payload', { depends: { 'bootloader.version': '3' } }],
    ['what every object has', { depends: { toString: 'x' } }],
  ])('a need for %s', async (_, options) => {
    expect((await refusalOf(options)).code).toBe('depends-unmet');
  });
});

describe('rejected before any call: the target of a payload', () => {
  const targets = { a: 'gateway' };

  test.each<[string, Partial<ArtifactOptions>]>([
    ['of an unknown type without targets', { type: 'deb' }],
    ['of no type', { type: null }],
    ['of no type, with targets', { type: null, targets }],
  ])('a payload %s', async (_, options) => {
    expect((await refusalOf(options)).code).toBe('payload-type');
  });

  const two = [...files, { name: 'b', content }];
  test.each<[string, string, Partial<ArtifactOptions>]>([
    ['a rootfs-image of two files', 'has one file, this one has 2', { files: two }],
    ['a rootfs-image with targets of its own', 'may not name targets', { type: 'rootfs-image', targets }],
    ['a file without a target', 'names no target for "b"', { files: two, targets }],
    ['a target without a file', 'names a target for "b", which it lacks', { targets: { ...targets, b: 'meter' } }],
    ['a target without a name', 'names no target for "a"', { targets: { a: '' } }],
    [
      'two files for one target',
      'two of its files go to "target gateway"',
      { files: two, targets: { a: 'gateway', b: 'gateway' } },
    ],
    [
      'two payloads for one target',
      'two of its files go to "target gateway"',
      { targets, furtherPayloads: [{ files, targets }] },
    ],
    ['two root file systems', 'two of its files go to "rootfs-image"', { furtherPayloads: [{ files }] }],
    ['a payload without files', 'payload 1 has no files', { targets, furtherPayloads: [{ files: [], targets: {} }] }],
  ])('%s', async (_, why, options) => {
    expect(await refusalOf(options)).toMatchObject(malformed(why));
  });
});

describe('refused although it was accepted', () => {
  async function lateRefusalOf(edit: Partial<Edits>): Promise<string> {
    const { error, gateway } = await refuse(await buildArtifact({ ...valid, edit }), here);
    expect(error).toMatchObject({ exit: 'refused' });
    expect(gateway).toMatchObject({ unclosed: 0 });
    return error.code;
  }

  test.each<[string, Edits['data'], string]>([
    [
      'a payload that is not the promised one',
      () => [{ name: 'a', content: Buffer.from('cOntent') }],
      'digest-mismatch',
    ],
    ['a payload that is longer', () => [{ name: 'a', content: Buffer.from('content+') }], 'digest-mismatch'],
    ['a payload that is empty', () => [{ name: 'a', content: Buffer.alloc(0) }], 'manifest-mismatch'],
    ['a file that the manifest lacks', (all) => [...all, { name: 'b', content }], 'manifest-mismatch'],
    ['a file under another name', () => [{ name: 'b', content }], 'manifest-mismatch'],
    ['a manifest entry without a file', () => [], 'manifest-mismatch'],
    ['the same file twice', (all) => [...all, ...all], 'tar-duplicate'],
    ['a name that climbs out', () => [{ name: '../a', content }], 'tar-name'],
  ])('%s', async (_, data, code) => {
    expect(await lateRefusalOf({ data })).toBe(code);
  });

  test('data that is too short or too long', async () => {
    expect(await lateRefusalOf({ dataTar: (tar) => shortened(tar) })).toBe('artifact-corrupt');
    expect(await lateRefusalOf({ dataTar: (tar) => followed(tar, Buffer.from('x')) })).toBe('tar-malformed');
  });

  test('a member behind the last payload', async () => {
    const artifact = await buildArtifact(valid);
    const extended = Buffer.concat([artifact.subarray(0, -tarEnd.length), tarFile('data/0001.tar', tarEnd), tarEnd]);
    const { error } = await refuse(extended, here);
    expect(error.message).toBe('artifact: "data/0001.tar" where the end should be');
  });

  test('a payload that is missing altogether', async () => {
    const artifact = await buildArtifact({ ...valid, furtherPayloads: [{ files, targets: { a: 'meter' } }] });
    const second = artifact.lastIndexOf('data/0001.tar');
    const { error } = await refuse(Buffer.concat([artifact.subarray(0, second), tarEnd]), here);
    expect(error.message).toBe('artifact: the end where data/0001.tar should be');
  });
});

function renamed(members: readonly TarMemberBytes[], from: string, to: string): readonly TarMemberBytes[] {
  return members.map(({ name, content }) => ({ name: name === from ? to : name, content }));
}

function replaced(members: readonly TarMemberBytes[], name: string, text: string): readonly TarMemberBytes[] {
  return members.map((one) => (one.name === name ? member(name, text) : one));
}

function textOf(members: readonly TarMemberBytes[], name: string): string {
  return Buffer.from(members.find((one) => one.name === name)?.content ?? []).toString();
}

function without(text: string, ending: string): string {
  return text
    .split('\n')
    .filter((line) => !line.endsWith(ending))
    .join('\n');
}

async function* shortened(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const chunk of chunks) yield chunk.length === 1024 ? chunk.subarray(0, 600) : chunk;
}

async function* followed(
  chunks: AsyncIterable<Uint8Array>,
  end: Uint8Array,
): AsyncGenerator<Uint8Array, void, undefined> {
  yield* chunks;
  yield end;
}
