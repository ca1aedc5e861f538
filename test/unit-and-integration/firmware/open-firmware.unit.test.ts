import { gzipSync, zstdCompressSync } from 'node:zlib';

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { AgentError } from '../../../src/system/errors.ts';
import { buildArtifact } from './artifact/build-artifact.ts';
import { makeKeyPair } from './artifact/keys.ts';
import { chunkSizes } from './chunks.ts';
import { digestOf } from './memory-slot.ts';
import { MemorySource } from './sources.ts';
import { Bench, failureOf } from './staging.ts';
import { encode, jsonString, variants } from './text/wire-text.ts';

const { privateKey: key, trusted } = makeKeyPair('ed25519', 'release.pem');
const rootfs = Buffer.alloc(200_000, 'root file system ');
const image = Buffer.from(Array.from({ length: 100_000 }, (_, n) => (n * n) >>> 5));

async function artifactText(): Promise<string> {
  const artifact = await buildArtifact({
    name: 'r2',
    devices: ['gw'],
    files: [{ name: 'r.ext4', content: rootfs }],
    key,
    compression: 'gzip',
  });
  return jsonString(artifact.toString('base64'), ['slash']);
}

function imageText(content: Uint8Array = image): string {
  return jsonString(encode(content, 'base64'));
}

async function failure(bench: Bench, source: MemorySource): Promise<AgentError | undefined> {
  const error = await failureOf(bench.stage(source));
  expect(source.unclosed).toBe(0);
  expect(bench.slot.unclosed).toBe(0);
  return error;
}

const artifactOfImage = await buildArtifact({ name: '1', devices: ['gw'], files: [{ name: 'a', content: image }] });

describe('an artifact', () => {
  test('is recognised, verified and staged', async () => {
    const bench = new Bench();
    bench.settings = { ...bench.settings, trust: { keys: [trusted], allowUnsigned: false } };
    const source = new MemorySource(await artifactText());
    const staged = await bench.stage(source);
    expect(bench.slot.finished?.equals(rootfs)).toBe(true);
    expect(bench.accepted).toEqual([
      expect.objectContaining({ kind: 'artifact', name: 'r2', signedBy: trusted.fingerprint }),
    ]);
    expect(staged.payloads[0]?.promise).toEqual({ kind: 'manifest', digest: digestOf(rootfs) });
    expect(source.unclosed + bench.slot.unclosed).toBe(0);
  });

  test.each([gzipSync, zstdCompressSync])('may be compressed as a whole (%o)', async (compress) => {
    const bench = new Bench();
    bench.settings = { ...bench.settings, trust: { keys: [trusted], allowUnsigned: false } };
    const artifact = await buildArtifact({
      name: 'r2',
      devices: ['gw'],
      files: [{ name: 'r.ext4', content: rootfs }],
      key,
    });
    await bench.stage(new MemorySource(compress(artifact), { form: 'decoded' }));
    expect(bench.slot.finished?.equals(rootfs)).toBe(true);
  });

  // Regression: the slot’s previous content was lost when the end of the file was noticed.
  test.each(['none', 'gzip'] as const)(
    'in a truncated file is rejected before a target is opened (%s)',
    async (compression) => {
      const files = [{ name: 'r.ext4', content: rootfs }];
      const artifact = await buildArtifact({ name: 'r2', devices: ['gw'], files, key, compression });
      const bench = new Bench();
      bench.settings = { ...bench.settings, trust: { keys: [trusted], allowUnsigned: false } };
      const cutBytes = fc.integer({ min: 512, max: artifact.length - 1 });
      await fc.assert(
        fc.asyncProperty(cutBytes, async (size) => {
          const error = await failure(bench, new MemorySource(artifact.subarray(0, size), { form: 'decoded' }));
          expect(error?.code).toMatch(/-truncated$/);
          expect(bench.slot.openings).toEqual([]);
        }),
        { numRuns: 50, examples: [[artifact.length - 1], [artifact.length - 1024]] },
      );
      await bench.stage(new MemorySource(artifact, { form: 'decoded' }));
      expect(bench.slot.finished?.equals(rootfs)).toBe(true);
    },
  );

  test('whose first name is damaged is still an artifact, not an image', async () => {
    const artifact = await buildArtifact({ name: 'r2', devices: ['gw'], files: [{ name: 'r.ext4', content: rootfs }] });
    artifact[0] = 0x57;
    const source = new MemorySource(artifact, { form: 'decoded' });
    expect(await failure(new Bench(), source)).toMatchObject({ code: 'tar-malformed', exit: 'refused' });
  });

  test('followed by garbage in the text is an error before anything is returned', async () => {
    const bench = new Bench();
    expect(await failure(bench, new MemorySource(`${await artifactText()} x`))).toMatchObject({
      code: 'text-trailing',
    });
  });
});

describe('a raw image', () => {
  test.each(variants)('comes through %s', async (variant) => {
    const bench = new Bench();
    const staged = await bench.stage(
      new MemorySource(jsonString(encode(image, variant), ['plain', 'slash', 'newline'])),
    );
    expect(bench.slot.finished?.equals(image)).toBe(true);
    expect(staged).toMatchObject({
      digest: digestOf(image),
      header: { kind: 'image', digest: undefined, signedBy: undefined },
      payloads: [{ header: { fileName: 'image', target: 'default' }, promise: { kind: 'unsigned-permitted' } }],
    });
  });

  test('comes through any chunks, of a text or of a file', async () => {
    await fc.assert(
      fc.asyncProperty(chunkSizes(fc), fc.boolean(), async (sizes, isFile) => {
        const bench = new Bench();
        const text = isFile ? image : imageText();
        await bench.stage(
          new MemorySource(text, {
            chunkSizes: sizes.map((size) => size * 50),
            form: isFile ? 'decoded' : 'json-string',
          }),
        );
        expect(bench.slot.finished?.equals(image)).toBe(true);
      }),
      { numRuns: 30 },
    );
  });

  test.each([gzipSync, zstdCompressSync])(
    'may be compressed, and is identified by its decompressed content (%o)',
    async (compress) => {
      const bench = new Bench();
      const staged = await bench.stage(new MemorySource(imageText(compress(image))));
      expect(bench.slot.finished?.equals(image)).toBe(true);
      expect(staged.digest).toBe(digestOf(image));
    },
  );

  test.each([[], [trusted]])('is refused unless the operator permits what is unsigned (keys: %o)', async (...keys) => {
    const bench = new Bench();
    bench.settings = { ...bench.settings, trust: { keys, allowUnsigned: false } };
    const refusal = await failure(bench, new MemorySource(imageText()));
    expect(refusal).toMatchObject({ code: 'image-unsigned', exit: 'refused' });
    expect(refusal?.message).toContain('not a firmware image at all');
    expect(refusal?.advice).toMatch(/^see whether it is the right file, and whole.*allow_unsigned/);
    expect(bench.accepted).toEqual([]);
    expect(bench.slot.openings).toEqual([]);
  });

  test('of nothing is refused before a place is opened', async () => {
    for (const source of [new MemorySource('', { form: 'decoded' }), new MemorySource(imageText(gzipSync('')))]) {
      const bench = new Bench();
      expect(await failure(bench, source)).toMatchObject({ code: 'image-empty' });
      bench.settings = { ...bench.settings, trust: { keys: [trusted], allowUnsigned: false } };
      expect(await failure(bench, source)).toMatchObject({ code: 'image-empty' });
      expect(bench.slot.openings).toEqual([]);
    }
  });

  test.each([
    ['truncated', imageText().slice(0, -1), 'text-truncated'],
    ['followed by something', `${imageText()},`, 'text-trailing'],
    ['with a wrong character near its end', imageText().replace(/.{9}$/, '*$&'), 'text-illegal-character'],
    ['compressed and truncated', imageText(gzipSync(image).subarray(0, -9)), 'compression-truncated'],
  ])('%s is never finished', async (_, text, code) => {
    const bench = new Bench();
    expect(await failure(bench, new MemorySource(text))).toMatchObject({ code });
    expect(bench.slot.finished).toBeUndefined();
  });

  test.each([
    ['compressed file', gzipSync(image).subarray(0, -9)],
    ['file with an artifact', artifactOfImage.subarray(0, -2_000)],
  ])('a truncated %s is not read again: it would have to be copied again', async (_, bytes) => {
    const error = await failure(new Bench(), new MemorySource(bytes, { form: 'decoded' }));
    expect(error).toMatchObject({ code: 'file-truncated', remedy: 'give-up', exit: 'refused' });
    expect(error?.message).toContain('the file is not whole');
    expect(error?.advice).toContain('copy it again');
  });

  test('stops immediately when the signal aborts, with its reason', async () => {
    for (const text of [imageText(), imageText(gzipSync(image))]) {
      const bench = new Bench();
      const controller = new AbortController();
      const reason = new Error('stop');
      const source = new MemorySource(text, { chunkSizes: [1000] });
      bench.slot.append = () => controller.abort(reason);
      await expect(bench.stage(source, controller.signal)).rejects.toBe(reason);
      expect(source.unclosed + bench.slot.unclosed).toBe(0);
    }
  });

  test('lets the failure of its source through', async () => {
    for (const text of [imageText(), imageText(gzipSync(image))]) {
      const source = new MemorySource(text, { chunkSizes: [1000], cutsAt: [text.length / 2] });
      expect(await failure(new Bench(), source)).toMatchObject({ code: 'link-lost' });
    }
  });
});

describe('progress', () => {
  test('counts the bytes of the text, not too often, up to all of them', async () => {
    const bench = new Bench();
    const text = imageText(Buffer.alloc(3_000_000, 'x'));
    await bench.stage(new MemorySource(text, { chunkSizes: [1, 70_000] }));
    const received = bench.progress.map(({ receivedBytes }) => receivedBytes);
    expect(received.at(-1)).toBe(text.length);
    expect(received).toEqual([...received].sort((a, b) => a - b));
    expect(received.length).toBeGreaterThan(8);
    expect(received.length).toBeLessThan(20);
    expect(bench.progress[0]?.totalBytes).toBe(text.length);
  });
});
