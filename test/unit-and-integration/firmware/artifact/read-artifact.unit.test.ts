import { createHash } from 'node:crypto';

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { readArtifact } from '../../../../src/firmware/artifact/read-artifact.ts';
import { ByteReader } from '../../../../src/firmware/byte-reader.ts';
import { FirmwareFormatError } from '../../../../src/firmware/errors.ts';
import { AgentError } from '../../../../src/system/errors.ts';
import type { PayloadWriter } from '../../../../src/update/ports.ts';
import { chunkSizes } from '../chunks.ts';
import { stageFrom } from '../stage-into.ts';
import { noCheckpoints, refuse, stage } from './attempt.ts';
import { artifactChunks, buildArtifact } from './build-artifact.ts';
import type { ArtifactOptions } from './build-artifact.ts';
import { makeKeyPair } from './keys.ts';
import { RecordingGateway } from './recording-gateway.ts';

const { privateKey: key, trusted } = makeKeyPair('ecdsa-p256', 'release.pem');
const keys = [trusted];

const rootfs = Buffer.alloc(5000, 'root file system ');
const meter = Buffer.from(':00000001FF\n');

const signed: ArtifactOptions = {
  name: 'release-2',
  devices: ['gw'],
  files: [{ name: 'r.ext4', content: rootfs }],
  key,
};
const targeted: ArtifactOptions = {
  ...signed,
  files: [...signed.files, { name: 'meter.hex', content: meter }],
  targets: { 'r.ext4': 'gateway', 'meter.hex': 'meter' },
};
const bothContents = new Map([
  ['r.ext4', rootfs],
  ['meter.hex', meter],
]);

function digestOf(content: Uint8Array): string {
  return `sha256:${createHash('sha256').update(content).digest('hex')}`;
}

describe('a signed artifact', () => {
  test('is staged, whatever the chunks', async () => {
    const artifact = await buildArtifact(targeted);
    await fc.assert(
      fc.asyncProperty(chunkSizes(fc), async (sizes) => {
        const { gateway } = await stage(artifact, { keys, chunkSizes: sizes });
        expect(gateway.contents).toEqual(bothContents);
      }),
      { numRuns: 30 },
    );
  });

  test('names the boards that are flashed one after the other', async () => {
    const { staged } = await stage(await buildArtifact({ ...targeted, order: ['meter'] }), { keys });
    expect(staged.header.payloads.map(({ fileName, order }) => [fileName, order])).toEqual(
      expect.arrayContaining([
        ['r.ext4', undefined],
        ['meter.hex', 0],
      ]),
    );
    const refused = await refuse(await buildArtifact({ ...targeted, order: ['pump'] }), { keys });
    expect(refused.error.message).toMatch(/pump/);
  });

  test('names the signer and the claims before the first byte, and the written content afterwards', async () => {
    let manifest = '';
    const artifact = await buildArtifact({ ...targeted, edit: { manifest: (text) => (manifest = text) } });
    const { gateway, staged } = await stage(artifact, { keys });
    const payloads = [
      { fileName: 'r.ext4', target: { name: 'gateway' }, digest: digestOf(rootfs) },
      { fileName: 'meter.hex', target: { name: 'meter' }, digest: digestOf(meter) },
    ];
    expect(gateway.header).toEqual({
      kind: 'artifact',
      digest: digestOf(Buffer.from(manifest)),
      name: 'release-2',
      deviceTypes: targeted.devices,
      signedBy: trusted.fingerprint,
      unknownSigner: false,
      payloads,
      provides: staged.provides,
    });
    expect(staged).toMatchObject({ header: gateway.header, digest: digestOf(Buffer.from(manifest)) });
    expect(staged.payloads).toEqual(
      [rootfs, meter].map((content, at) => ({
        header: payloads[at],
        written: { sizeBytes: content.length, digest: digestOf(content), unchangedBytes: 0 },
        promise: { kind: 'manifest', digest: digestOf(content) },
      })),
    );
  });

  test('opens its payloads one at a time, after it was accepted, each with its size', async () => {
    const { gateway } = await stage(await buildArtifact(targeted), { keys });
    expect(gateway.events).toEqual(['accept', 'open r.ext4', 'finish r.ext4', 'open meter.hex', 'finish meter.hex']);
    expect(gateway.opened.map(({ sizeBytes, resumeAt }) => ({ sizeBytes, resumeAt }))).toEqual([
      { sizeBytes: 5000, resumeAt: undefined },
      { sizeBytes: 12, resumeAt: undefined },
    ]);
    expect(gateway.unclosed).toBe(0);
  });

  test('of type rootfs-image goes to the slots', async () => {
    const { staged } = await stage(await buildArtifact(signed), { keys });
    expect(staged.header.payloads).toEqual([{ fileName: 'r.ext4', target: 'rootfs-image', digest: digestOf(rootfs) }]);
  });

  test('may have several payloads', async () => {
    const further = [{ files: [{ name: 'meter.hex', content: meter }], targets: { 'meter.hex': 'meter' } }];
    const { gateway, staged } = await stage(await buildArtifact({ ...signed, furtherPayloads: further }), { keys });
    expect(gateway.contents).toEqual(bothContents);
    expect(staged.payloads.map(({ header }) => header.target)).toEqual(['rootfs-image', { name: 'meter' }]);
  });

  test('without clears_provides keeps none of the previous provides', async () => {
    const { staged } = await stage(await buildArtifact(signed), { keys, installed: { other: '1' } });
    expect(staged.provides).toEqual({ artifact_name: 'release-2' });
    const kept = await stage(await buildArtifact({ ...signed, clears: [] }), { keys, installed: { other: '1' } });
    expect(kept.staged.provides).toEqual({ artifact_name: 'release-2', other: '1' });
  });

  test('may hold its files in another order than its manifest', async () => {
    const reversed = await buildArtifact({ ...targeted, edit: { data: (files) => files.toReversed() } });
    const { gateway } = await stage(reversed, { keys });
    expect(gateway.events).toEqual(['accept', 'open meter.hex', 'finish meter.hex', 'open r.ext4', 'finish r.ext4']);
  });

  test('is not touched further once it is not accepted', async () => {
    const gateway = new RecordingGateway();
    gateway.refusal = new AgentError({ code: 'no', message: 'no', remedy: 'give-up', exit: 'refused' });
    const { error } = await refuse(await buildArtifact(signed), { keys, gateway });
    expect(error).toBe(gateway.refusal);
    expect(gateway.events).toEqual(['accept']);
  });

  test('stops when the signal aborts', async () => {
    const controller = new AbortController();
    const gateway = new RecordingGateway();
    gateway.onOpen = () => controller.abort(new Error('stop'));
    const stopped = stage(await buildArtifact(signed), { keys, gateway, signal: controller.signal });
    await expect(stopped).rejects.toThrow('stop');
    expect(gateway).toMatchObject({ events: ['accept', 'open r.ext4'], unclosed: 0 });
  });
});

test('an image of more than 8 GiB passes through without being copied', async () => {
  const chunk = Buffer.alloc(4 * 1024 * 1024);
  const sizeBytes = 8 ** 11 + 3;
  const sha256 = digestOf(Buffer.from('not computed here')).slice('sha256:'.length);
  async function* chunks(): AsyncGenerator<Uint8Array, void, undefined> {
    for (let left = sizeBytes; left > 0; left -= chunk.length) yield chunk.subarray(0, Math.min(left, chunk.length));
  }
  let writtenBytes = 0;
  let copiedBytes = 0;
  const writer: PayloadWriter = {
    write: (bytes) => {
      writtenBytes += bytes.length;
      if (bytes.buffer !== chunk.buffer) copiedBytes += bytes.length;
      return undefined;
    },
    checkpoint: () => Promise.reject(new Error('none')),
    finish: async () => ({ sizeBytes: writtenBytes, digest: `sha256:${sha256}`, unchangedBytes: 0 }),
    [Symbol.asyncDispose]: async () => undefined,
  };
  const artifact = artifactChunks({ ...signed, files: [{ name: 'big', content: { sizeBytes, chunks, sha256 } }] });
  await using bytes = new ByteReader(artifact, 'artifact');
  const { signal } = new AbortController();
  const firmware = await readArtifact(
    bytes,
    {
      trust: { keys, allowUnsigned: false },
      deviceType: 'gw',
      installedProvides: {},
      decompress: (_kind, content) => content,
      checkpoints: noCheckpoints,
    },
    signal,
  );
  await stageFrom(firmware, { openPayload: async () => writer }, signal);
  expect({ writtenBytes, copiedBytes }).toEqual({ writtenBytes: sizeBytes, copiedBytes: 0 });
});

describe('trust', () => {
  const unsigned = { ...signed, key: undefined };
  const { trusted: other } = makeKeyPair('ecdsa-p256', 'other.pem');

  test.each(['ecdsa-p256', 'ed25519', 'rsa'] as const)(
    'a signature by a key of type %s is believed',
    async (algorithm) => {
      const pair = makeKeyPair(algorithm, 'the-one.pem');
      const { staged } = await stage(await buildArtifact({ ...signed, key: pair.privateKey }), {
        keys: [other, pair.trusted],
      });
      expect(staged.header.signedBy).toBe(pair.trusted.fingerprint);
    },
  );

  test('an ECDSA signature in DER is believed as well', async () => {
    const artifact = await buildArtifact({ ...signed, edit: { signature: asDer } });
    expect((await stage(artifact, { keys })).staged.header.signedBy).toBe(trusted.fingerprint);
  });

  test('a line end behind the signature does no harm', async () => {
    const artifact = await buildArtifact({ ...signed, edit: { signature: (text) => `${text}\n` } });
    expect((await stage(artifact, { keys })).staged.header.signedBy).toBe(trusted.fingerprint);
  });

  test.each([
    ['unsigned', unsigned, keys, 'artifact-unsigned'],
    ['signed by another key', signed, [other], 'signature-invalid'],
    ['signed, but no key is trusted', signed, [], 'trust-no-keys'],
    ['unsigned, and no key is trusted', unsigned, [], 'trust-no-keys'],
  ])('an artifact that is %s is refused', async (_, options, keys, code) => {
    const { error, gateway } = await refuse(await buildArtifact(options), { keys });
    expect(error).toMatchObject({ code, exit: 'refused', remedy: 'give-up' });
    expect(gateway.events).toEqual([]);
  });

  test.each<[string, ArtifactOptions, string | undefined, boolean]>([
    ['unsigned', unsigned, undefined, false],
    ['signed by an unknown key', { ...signed, key: makeKeyPair('ed25519').privateKey }, undefined, true],
    ['garbled in its signature', { ...signed, edit: { signature: () => '?' } }, undefined, true],
    ['signed by a trusted key', signed, trusted.fingerprint, false],
  ])(
    'where unsigned is allowed, an artifact that is %s is taken as what it is',
    async (_, options, signedBy, unknownSigner) => {
      const { staged } = await stage(await buildArtifact(options), { keys, allowUnsigned: true });
      expect(staged.header).toMatchObject({ unknownSigner });
      expect(staged.header.signedBy).toBe(signedBy);
      expect(staged.payloads[0]?.promise.kind).toBe(signedBy === undefined ? 'unsigned-permitted' : 'manifest');
    },
  );

  test.each<[string, (text: string) => string]>([
    ['empty', () => ''],
    ['not base64', (text) => `${text.slice(0, -4)}!!==`],
    ['in base64 with line ends inside', (text) => `${text.slice(0, 40)}\n${text.slice(40)}`],
    ['cut', (text) => Buffer.from(text, 'base64').subarray(0, 63).toString('base64')],
    ['all zero', () => Buffer.alloc(64).toString('base64')],
  ])('a signature that is %s is refused', async (_, signature) => {
    const { error } = await refuse(await buildArtifact({ ...signed, edit: { signature } }), { keys });
    expect(error.code).toBe('signature-invalid');
  });

  test('a manifest changed after it was signed is refused before it is understood', async () => {
    const artifact = await buildArtifact(signed);
    const at = artifact.indexOf('  data/0000/');
    artifact.write('XX', at, 'latin1');
    expect((await refuse(artifact, { keys })).error.code).toBe('signature-invalid');
  });
});

/** r and s side by side as an ASN.1 sequence of two integers. */
function asDer(text: string): string {
  const raw = Buffer.from(text, 'base64');
  const integers = [raw.subarray(0, 32), raw.subarray(32)].map((number) => {
    const first = number.findIndex((byte) => byte !== 0);
    const trimmed = number.subarray(first);
    const positive = (trimmed[0] ?? 0) < 0x80 ? trimmed : Buffer.concat([Buffer.alloc(1), trimmed]);
    return Buffer.concat([Buffer.from([2, positive.length]), positive]);
  });
  const body = Buffer.concat(integers);
  return Buffer.concat([Buffer.from([0x30, body.length]), body]).toString('base64');
}

describe('an error inside a compressed member', () => {
  const compressedArtifact = buildArtifact({ ...signed, compression: 'gzip' });

  test('is a refusal of the artifact', async () => {
    const { error, gateway } = await refuse(await compressedArtifact, {
      keys,
      decompress: () => {
        throw new FirmwareFormatError('compression-corrupt', 'gzip', 7, 'invalid block');
      },
    });
    expect(error).toMatchObject({ code: 'artifact-corrupt', exit: 'refused' });
    expect(error.message).toBe('artifact, inside header.tar.gz: gzip, byte 7: invalid block');
    expect(gateway.events).toEqual([]);
  });

  test('is distinguished from an error before it', async () => {
    const artifact = await buildArtifact(signed);
    const cut = new FirmwareFormatError('text-truncated', 'text', 9, 'the line is cut');
    async function* failing(): AsyncGenerator<Uint8Array, void, undefined> {
      yield artifact.subarray(0, -3000);
      throw cut;
    }
    await using bytes = new ByteReader(failing(), 'artifact');
    const gateway = new RecordingGateway();
    const deps = { trust: { keys, allowUnsigned: false }, deviceType: 'gw', installedProvides: {} };
    const { signal } = new AbortController();
    const firmware = await readArtifact(
      bytes,
      { ...deps, decompress: (_kind, content) => content, checkpoints: noCheckpoints },
      signal,
    );
    await expect(stageFrom(firmware, gateway.places, signal)).rejects.toBe(cut);
    expect(gateway).toMatchObject({ events: ['accept', 'open r.ext4'], unclosed: 0 });
  });
});
