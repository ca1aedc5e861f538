import { createHash } from 'node:crypto';

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { claimsOf } from '../../../../src/firmware/delta/encode.ts';
import { MAX_PLACES, WindowOffsets } from '../../../../src/firmware/delta/window-offsets.ts';
import type { ArtifactPlace, Checkpoint } from '../../../../src/update/ports.ts';
import { buildArtifact } from '../artifact/build-artifact.ts';
import type { ArtifactOptions, PayloadFile } from '../artifact/build-artifact.ts';
import { makeKeyPair } from '../artifact/keys.ts';
import { inChunks } from '../chunks.ts';
import { LinkLost, MemorySource } from '../sources.ts';
import type { MemorySourceOptions } from '../sources.ts';
import { Bench, failureOf } from '../staging.ts';
import { deltaOf } from './delta-bench.ts';

const validator = '"v1"';
const { privateKey: key, trusted } = makeKeyPair('ecdsa-p256', 'release.pem');
const WINDOW_BYTES = 8192;
const WINDOWS = 12;

/** Nothing of it can be compressed, and all of it is the same each time. */
function noise(seed: string, sizeBytes: number): Buffer {
  const blocks = Array.from({ length: Math.ceil(sizeBytes / 32) }, (_, n) =>
    createHash('sha256').update(`${seed} ${n}`).digest(),
  );
  return Buffer.concat(blocks, sizeBytes);
}

/** A part of each window is new, and one is a copy. */
const base = noise('base', WINDOWS * WINDOW_BYTES);
const result = Buffer.from(base);
for (let window = 0; window < WINDOWS; window += 1) {
  if (window !== 3) noise(`new ${window}`, 3000).copy(result, window * WINDOW_BYTES + 100);
}
const boot = noise('boot', 5000);
const delta = await deltaOf(base, result, WINDOW_BYTES);

async function textOf(content: Uint8Array, more: Partial<ArtifactOptions> = {}): Promise<string> {
  const artifact = await buildArtifact({
    name: '1.4.0',
    devices: ['gw'],
    key,
    files: [{ name: 'boot.vfat', content: boot }],
    targets: { 'boot.vfat': 'boot' },
    furtherPayloads: [
      {
        files: [{ name: 'root.delta', content }],
        deltas: { 'root.delta': { target: 'gateway', ...claimsOf(base, result) } },
      },
    ],
    ...more,
  });
  return JSON.stringify(artifact.toString('base64'));
}

const text = await textOf(delta);

/** Returns the offset of a text this far after the beginning of these bytes. */
function inText(of: string, bytes: Buffer, behind: number): number {
  const artifact = Buffer.from(of.slice(1, -1), 'base64');
  return Math.floor(((artifact.indexOf(bytes.subarray(0, 100)) + behind) * 4) / 3);
}

function bench(bytes = 1000): Bench {
  const made = new Bench();
  made.hasPlaceForEach = true;
  made.base = base;
  const checkpointDistance = { bytes, shortestMs: 0, longestMs: Infinity };
  const trust = { keys: [trusted], allowUnsigned: false };
  // For this detection, the beginning arrives in one piece.
  made.settings = { ...made.settings, trust, checkpointDistance, encoding: 'base64' };
  return made;
}

function brokenSource(more: MemorySourceOptions = {}, of = text): MemorySource {
  return new MemorySource(of, { validator, chunkSizes: [700, 1, 640], cutsAt: [of.length * 0.8], ...more });
}

/** Stages as far as the source goes, then cuts the power. */
async function interrupted(made: Bench, source = brokenSource()): Promise<MemorySource> {
  await expect(made.stage(source)).rejects.toMatchObject({ code: 'link-lost' });
  made.cutPower();
  return source;
}

function expectWhole(made: Bench): void {
  for (const [name, content] of Object.entries({ 'boot.vfat': boot, 'root.delta': result })) {
    expect({ name, isWhole: made.slotOf(name).finished?.equals(content) }).toEqual({ name, isWhole: true });
  }
}

function checkpointOf({ checkpoint }: Bench): Checkpoint & { readonly artifact: ArtifactPlace } {
  if (checkpoint?.artifact === undefined) throw new Error('no checkpoint of an artifact');
  return { ...checkpoint, artifact: checkpoint.artifact };
}

describe('an interrupted delta', () => {
  test('resumes after the last rebuilt window: the previous part is not fetched again', async () => {
    const made = bench();
    const source = await interrupted(made);
    await made.stage(source);
    expectWhole(made);
    const [, again] = source.openings;
    expect(again?.offset).toBeGreaterThan(text.length * 0.8 - (2 * WINDOW_BYTES * 4) / 3);
    expect(made.slotOf('root.delta').openings[1]?.resumeAt?.sizeBytes).toBeGreaterThan(result.length * 0.6);
    expect(made.accepted).toHaveLength(2);
    expect(source.openings).toHaveLength(2);
  });

  test('goes on after any cuts, in chunks of any size, however far checkpoints are apart', async () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 9000 }), { minLength: 1, maxLength: 4 });
    const cuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(sizes, cuts, fc.integer({ min: 1, max: 40_000 }), async (chunkSizes, at, bytes) => {
        const cutsAt = at.map((cut) => Math.floor(cut * text.length));
        const source = new MemorySource(text, { validator, chunkSizes, cutsAt });
        const made = bench(bytes);
        for (let attempt = 0; (await failureOf(made.stage(source))) !== undefined; attempt += 1) {
          expect(attempt).toBeLessThan(at.length);
          made.cutPower();
        }
        expectWhole(made);
        expect(source.openings.length).toBeLessThanOrEqual(cutsAt.length + 1);
      }),
      { numRuns: 15 },
    );
  });

  test('resumes at the end of a window, also if one arrives in several pieces', async () => {
    const large = noise('large', 900_000);
    const wanted = Buffer.concat([noise('first', 300_000), large.subarray(0, 500_000), noise('last', 100_000)]);
    const deltas = { 'root.delta': { target: 'gateway', ...claimsOf(large, wanted) } };
    const files = [{ name: 'root.delta', content: await deltaOf(large, wanted, 100_000) }];
    const wide = await textOf(delta, { furtherPayloads: [{ files, deltas }] });
    for (const cutAfter of [2, 3, 4, 5, 6]) {
      const made = bench();
      made.base = large;
      made.afterCheckpoint = () => {
        if (made.checkpoints === cutAfter) throw new LinkLost();
      };
      const source = new MemorySource(wide, { validator, chunkSizes: [9000] });
      await interrupted(made, source);
      await made.stage(source);
      expect(made.slotOf('root.delta').finished?.equals(wanted)).toBe(true);
      expect(source.openings).toHaveLength(2);
    }
  });

  test('stores a checkpoint only of previously durable data', async () => {
    const made = bench();
    made.afterCheckpoint = () => made.cutPower();
    await made.stage(new MemorySource(text, { validator, chunkSizes: [700] }));
    expect(made.checkpoints).toBeGreaterThan(5);
    expectWhole(made);
  });

  test('starts over where its place holds something else by now', async () => {
    const made = bench();
    const source = await interrupted(made);
    made.slotOf('root.delta').content.fill(0, 100, 101);
    await made.stage(source);
    expectWhole(made);
    expect(source.openings.map((from) => from !== undefined)).toEqual([false, true, false]);
  });

  test('is refused where the image that it is made from has changed since', async () => {
    const made = bench();
    const source = await interrupted(made);
    made.base = noise('another', base.length);
    await expect(made.stage(source)).rejects.toMatchObject({ code: 'delta-base-mismatch' });
    expect(source.openings.map((from) => from !== undefined)).toEqual([false, true, false]);
    expect(made.slotOf('root.delta').finished).toBeUndefined();
  });

  test('that holds something else than was signed is read from its beginning before it is judged', async () => {
    const other = await deltaOf(base, noise('other', result.length), WINDOW_BYTES);
    const exchanged = Buffer.concat([delta.subarray(0, 25_000), other.subarray(25_000)], delta.length);
    const data = (files: readonly PayloadFile[]): readonly PayloadFile[] =>
      files.map((file) => (file.name === 'root.delta' ? { ...file, content: exchanged } : file));
    const lying = await textOf(delta, { edit: { data } });
    const made = bench();
    const source = brokenSource({ cutsAt: [inText(lying, delta, 20_000)] }, lying);
    await interrupted(made, source);
    await expect(made.stage(source)).rejects.toMatchObject({ exit: 'refused' });
    expect(source.openings.map((from) => from !== undefined)).toEqual([false, true, false]);
    expect(made.slotOf('root.delta').finished).toBeUndefined();
  });
});

describe('a checkpoint’s claims about a delta are not believed', () => {
  const wrong: readonly (readonly [string, (place: NonNullable<ArtifactPlace['delta']>) => ArtifactPlace['delta']])[] =
    [
      ['no place in it', () => undefined],
      ['an earlier window', ({ takenBytes }) => ({ takenBytes: takenBytes - 5000, skipBytes: 0 })],
      ['the middle of a window', ({ takenBytes, skipBytes }) => ({ takenBytes, skipBytes: skipBytes + 1 })],
      ['more than the file has', ({ takenBytes }) => ({ takenBytes, skipBytes: delta.length })],
      ['a fraction', ({ takenBytes, skipBytes }) => ({ takenBytes: takenBytes + 0.5, skipBytes })],
      ['less than nothing', ({ skipBytes }) => ({ takenBytes: -1, skipBytes })],
      ['less than nothing to pass over', ({ takenBytes }) => ({ takenBytes, skipBytes: -1 })],
    ];
  test.each(wrong)('where it names %s', async (_, change) => {
    const made = bench();
    await interrupted(made);
    const { artifact, ...rest } = checkpointOf(made);
    expect(artifact.delta?.skipBytes).toBeGreaterThan(0);
    made.checkpoint = { ...rest, artifact: { ...artifact, delta: artifact.delta && change(artifact.delta) } };
    const source = new MemorySource(text, { validator });
    await made.stage(source);
    expectWhole(made);
    expect(source.openings.at(-1)).toBeUndefined();
  });

  test('where it speaks of a window more than was rebuilt', async () => {
    const made = bench();
    await interrupted(made);
    const { image } = checkpointOf(made);
    made.checkpoint = { ...checkpointOf(made), image: { ...image, sizeBytes: image.sizeBytes + WINDOW_BYTES } };
    const source = new MemorySource(text, { validator });
    await made.stage(source);
    expectWhole(made);
    expect(source.openings.at(-1)).toBeUndefined();
  });

  test('if it calls a full image a delta', async () => {
    const made = bench();
    const inBoot = brokenSource({ cutsAt: [inText(text, boot, 3_000)], chunkSizes: [640] });
    await interrupted(made, inBoot);
    const { artifact, ...rest } = checkpointOf(made);
    expect(artifact.file.name).toBe('boot.vfat');
    made.checkpoint = { ...rest, artifact: { ...artifact, delta: { takenBytes: 10, skipBytes: 5 } } };
    await made.stage(inBoot);
    expectWhole(made);
  });
});

describe('the places in the file of a delta', () => {
  test('are the last that came before a window ended, and few, however the file comes', async () => {
    const places = new WindowOffsets(0, () => ({}));
    let count = 0;
    for await (const chunk of places.through(inChunks(Buffer.alloc(100_000), [1]))) {
      count += chunk.length;
      if (count % 30_000 === 0) places.windowEnds(count - 7);
      expect(places.size).toBeLessThanOrEqual(MAX_PLACES);
    }
    const { takenBytes = 0, skipBytes = 0 } = places.last?.delta ?? {};
    expect(takenBytes + skipBytes).toBe(90_000 - 7);
    expect(skipBytes).toBeLessThan(30_000 / (MAX_PLACES / 2));
  });

  test('are absent if resuming is impossible', async () => {
    const places = new WindowOffsets(0, () => undefined);
    for await (const chunk of places.through(inChunks(Buffer.alloc(1000), [100]))) places.windowEnds(chunk.length);
    expect(places.last).toBeUndefined();
  });
});
