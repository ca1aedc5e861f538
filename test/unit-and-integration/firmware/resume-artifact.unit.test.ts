import { createHash } from 'node:crypto';

import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';

import type { ArtifactPlace, Checkpoint } from '../../../src/update/ports.ts';
import { howMuch } from '../../full.ts';
import { buildArtifact } from './artifact/build-artifact.ts';
import type { ArtifactOptions, PayloadFile } from './artifact/build-artifact.ts';
import { makeKeyPair } from './artifact/keys.ts';
import { MemorySource } from './sources.ts';
import type { MemorySourceOptions } from './sources.ts';
import { Bench, failureOf } from './staging.ts';
import { encode, encodingOf, fractions, jsonString, spellings, variants } from './text/wire-text.ts';

const validator = '"v1"';
const { privateKey: key, trusted } = makeKeyPair('ecdsa-p256', 'release.pem');
const other = makeKeyPair('ed25519', 'other.pem');

function bench(bytes = 1000): Bench {
  const made = new Bench();
  made.hasPlaceForEach = true;
  const checkpointDistance = { bytes, shortestMs: 0, longestMs: Infinity };
  made.settings = { ...made.settings, trust: { keys: [trusted], allowUnsigned: false }, checkpointDistance };
  return made;
}

function noise(length: number, seed: number): Buffer {
  return Buffer.from(Array.from({ length }, (_, n) => ((n + seed) * (n + 7)) >>> 3));
}

const rootfs = noise(20_000, 1);
const meter = noise(2_000, 2);
const boot = noise(9_000, 3);

const options: ArtifactOptions = {
  name: '1.4.0',
  devices: ['gw'],
  key,
  files: [
    { name: 'boot.vfat', content: boot },
    { name: 'meter.hex', content: meter },
  ],
  targets: { 'boot.vfat': 'boot', 'meter.hex': 'meter' },
  furtherPayloads: [{ files: [{ name: 'rootfs.ext4', content: rootfs }], targets: { 'rootfs.ext4': 'gateway' } }],
};

let text: string;

async function textOf(given: ArtifactOptions): Promise<string> {
  return jsonString(encode(await buildArtifact(given), 'base64'), ['plain', 'slash', 'plain', 'newline']);
}

beforeAll(async () => {
  text = await textOf(options);
});

/** A source whose first transfer breaks off near its end, in the second payload. */
function brokenSource(more: MemorySourceOptions = {}, of = text): MemorySource {
  return new MemorySource(of, { validator, chunkSizes: [7000, 1, 640], cutsAt: [of.length * 0.8], ...more });
}

/** Stages as far as the source goes, then cuts the power. */
async function interrupted(made: Bench, source = brokenSource()): Promise<MemorySource> {
  await expect(made.stage(source)).rejects.toMatchObject({ code: 'link-lost' });
  made.cutPower();
  return source;
}

function expectWhole(made: Bench): void {
  for (const [name, content] of Object.entries({ 'boot.vfat': boot, 'meter.hex': meter, 'rootfs.ext4': rootfs })) {
    expect({ name, isWhole: made.slotOf(name).finished?.equals(content) }).toEqual({ name, isWhole: true });
  }
}

function checkpointOf({ checkpoint }: Bench): Checkpoint & { readonly artifact: ArtifactPlace } {
  if (checkpoint?.artifact === undefined) throw new Error('no checkpoint of an artifact');
  return { ...checkpoint, artifact: checkpoint.artifact };
}

function placeOf(made: Bench): ArtifactPlace {
  return checkpointOf(made).artifact;
}

describe('a signed artifact', () => {
  test('goes on after any cut, of any text, from its last checkpoint, with the same bytes', async () => {
    const file = fc.uint8Array({ minLength: 1, maxLength: 2500 });
    const payloads = fc.array(fc.array(file, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 2 });
    const wire = fc.record({ variant: fc.constantFrom(...variants), spelled: spellings });
    const every = fc.integer({ min: 1, max: 400 });
    await fc.assert(
      fc.asyncProperty(payloads, wire, fractions, every, async (contents, { variant, spelled }, cuts, bytes) => {
        const files = contents.map((each, n) => each.map((content, m) => ({ name: `f-${n}-${m}`, content })));
        const encoded = jsonString(encode(await buildArtifact(artifactOf(files)), variant), spelled);
        const cutsAt = cuts.map((cut) => Math.floor(cut * encoded.length));
        const source = new MemorySource(encoded, { validator, chunkSizes: [97, 1, 33], cutsAt });
        const made = bench(bytes);
        made.settings = { ...made.settings, encoding: encodingOf(variant) };
        for (let attempt = 0; (await failureOf(made.stage(source))) !== undefined; attempt += 1) {
          expect(attempt).toBeLessThan(cuts.length);
          made.cutPower();
        }
        for (const { name, content } of files.flat()) expect(made.slotOf(name).finished?.equals(content)).toBe(true);
      }),
      { numRuns: howMuch(40, 20) },
    );
  });

  test('requests only the rest, opens each target with its content, and asks for consent again', async () => {
    const made = bench();
    const source = await interrupted(made);
    const { checkpoint } = made;
    expect(made.checkpoints).toBeGreaterThan(2);
    expect(placeOf(made).whole.map(({ name }) => name)).toEqual(['boot.vfat', 'meter.hex']);
    const staged = await made.stage(source);
    expectWhole(made);
    expect(staged.payloads.map(({ header }) => header.fileName)).toEqual(['boot.vfat', 'meter.hex', 'rootfs.ext4']);
    expect(staged.payloads.map(({ promise }) => promise.kind)).toEqual(['manifest', 'manifest', 'manifest']);
    expect(staged.header.signedBy).toBe(trusted.fingerprint);
    expect(source.openings).toEqual([undefined, checkpoint?.wire]);
    expect(made.slotOf('rootfs.ext4').openings[1]?.resumeAt).toEqual(checkpoint?.image);
    expect(made.accepted.map(({ digest }) => digest)).toEqual([staged.digest, staged.digest]);
  });

  test('keeps the data received before a lost connection, however little since the last checkpoint', async () => {
    const made = bench(Infinity);
    const source = await interrupted(made, brokenSource({ chunkSizes: [640] }));
    expect(made.checkpoints).toBe(1);
    expect(made.checkpoint?.wire.offset).toBeGreaterThan(text.length * 0.8 - 1300);
    await made.stage(source);
    expectWhole(made);
    expect(source.openings[1]).toBeDefined();
  });

  test('is kept each minute on a slow line, and on a fast one not for seconds', async () => {
    const keptAt = async (bytesPerMs: number): Promise<readonly number[]> => {
      const made = bench();
      const times: number[] = [];
      let nowMs = 0;
      const clock = { monotonicMs: () => (nowMs += 640 / bytesPerMs) };
      made.settings = { ...made.settings, clock, checkpointDistance: undefined };
      made.afterCheckpoint = () => times.push(nowMs);
      await made.stage(new MemorySource(text, { validator, chunkSizes: [640] }));
      return times;
    };
    const slow = await keptAt(0.05);
    expect(slow.length).toBeGreaterThan(5);
    for (const [index, at] of slow.entries()) {
      expect(at - (slow[index - 1] ?? 0)).toBeGreaterThanOrEqual(60_000);
      expect(at - (slow[index - 1] ?? 0)).toBeLessThan(60_000 + 3 * 12_800);
    }
    expect(await keptAt(100)).toEqual([]);
  });

  test('stores a checkpoint only of previously durable data', async () => {
    const made = bench();
    made.afterCheckpoint = () => made.cutPower();
    await made.stage(new MemorySource(text, { validator, chunkSizes: [7000] }));
    expect(made.checkpoints).toBeGreaterThan(2);
    expectWhole(made);
  });

  test.each([
    ['the text changed', { afterCut: (source: MemorySource) => (source.validator = '"v2"') }],
    ['the service sends all of it again', { options: { ignoresPosition: true } }],
  ] as const)('starts over in the same transfer where %s', async (_, given) => {
    const made = bench();
    const source = await interrupted(made, brokenSource('options' in given ? given.options : {}));
    if ('afterCut' in given) given.afterCut(source);
    await made.stage(source);
    expectWhole(made);
    expect(source.openings).toHaveLength(2);
    expect(made.slotOf('rootfs.ext4').openings[1]?.resumeAt).toBeUndefined();
  });

  test.each(['boot.vfat', 'meter.hex', 'rootfs.ext4'])(
    'starts over where the place of %s was changed',
    async (name) => {
      const made = bench();
      const source = await interrupted(made);
      made.slotOf(name).content.fill(0, 100, 101);
      await made.stage(source);
      expectWhole(made);
      expect(source.openings.map((from) => from !== undefined)).toEqual([false, true, false]);
      expect(source.unclosed).toBe(0);
      expect([...made.slots.values()].map(({ unclosed }) => unclosed)).toEqual([0, 0, 0]);
    },
  );

  test('is refused once its key is no longer trusted, and no place is opened', async () => {
    const made = bench();
    const source = await interrupted(made);
    const opened = made.slotOf('rootfs.ext4').openings.length;
    made.settings = { ...made.settings, trust: { keys: [other.trusted], allowUnsigned: false } };
    await expect(made.stage(source)).rejects.toMatchObject({ code: 'signature-invalid' });
    expect(made.slotOf('rootfs.ext4').openings).toHaveLength(opened);
    expect(made.accepted).toHaveLength(1);
    expect(made.checkpoint).toBeUndefined();
  });

  test('is refused once this gateway is another', async () => {
    const made = bench();
    const source = await interrupted(made);
    made.settings = { ...made.settings, deviceType: 'other' };
    await expect(made.stage(source)).rejects.toMatchObject({ code: 'device-type-mismatch' });
    expect(made.accepted).toHaveLength(1);
  });

  test('that holds something else than was signed is read from its beginning before it is judged', async () => {
    const lying = (files: readonly PayloadFile[]): readonly PayloadFile[] =>
      files.map((file) => (file.name === 'rootfs.ext4' ? { ...file, content: noise(20_000, 9) } : file));
    const made = bench();
    const source = await interrupted(made, brokenSource({}, await textOf({ ...options, edit: { data: lying } })));
    await expect(made.stage(source)).rejects.toMatchObject({ code: 'digest-mismatch' });
    expect(source.openings.map((from) => from !== undefined)).toEqual([false, true, false]);
  });

  test('that does not fit into a journal has no checkpoints', async () => {
    const notes = Array.from({ length: 1000 }, (_, n) => createHash('sha256').update(`${n}`).digest('hex'));
    const provides = { 'rootfs.notes': notes.join('') };
    const made = bench();
    const source = await interrupted(made, brokenSource({}, await textOf({ ...options, provides })));
    expect(made.checkpoints).toBe(0);
    await made.stage(source);
    expectWhole(made);
  });
});

describe('the claims of a checkpoint are not believed', () => {
  test('with any changed bits in its stored part of the artifact', async () => {
    const made = bench();
    await interrupted(made);
    const kept = Buffer.from(placeOf(made).head, 'base64');
    await fc.assert(
      fc.asyncProperty(fc.nat(kept.length - 1), fc.integer({ min: 1, max: 255 }), async (at, bits) => {
        const damaged = Buffer.from(kept);
        damaged[at] = (damaged[at] ?? 0) ^ bits;
        const source = await resumedWith(made, { ...placeOf(made), head: damaged.toString('base64') });
        expect(source.unclosed).toBe(0);
      }),
      { numRuns: howMuch(40, 20) },
    );
  });

  test('where it keeps another artifact of the same key', async () => {
    const [made, another] = [bench(), bench()];
    await interrupted(made);
    const files = [{ name: 'rootfs.ext4', content: noise(20_000, 4) }];
    const targets = { 'rootfs.ext4': 'gateway' };
    await interrupted(another, brokenSource({}, await textOf({ ...options, furtherPayloads: [{ files, targets }] })));
    made.checkpoint = { ...checkpointOf(made), artifact: { ...placeOf(made), head: placeOf(another).head } };
    const source = new MemorySource(text, { validator });
    await expect(made.stage(source)).rejects.toMatchObject({ code: 'firmware-changed', remedy: 'retry' });
    await made.stage(source);
    expectWhole(made);
  });

  const wrong: readonly (readonly [string, (place: ArtifactPlace) => Partial<ArtifactPlace>])[] = [
    ['a payload that there is not', () => ({ payload: 2 })],
    ['an earlier payload', () => ({ payload: 0 })],
    ['a fraction', ({ member }) => ({ member: { ...member, leftBytes: member.leftBytes - 0.5 } })],
    ['too little to come', ({ member }) => ({ member: { ...member, leftBytes: member.leftBytes - 512 } })],
    ['too much to come', ({ member }) => ({ member: { ...member, leftBytes: member.leftBytes + 4096 } })],
    ['nothing to come', ({ member }) => ({ member: { ...member, leftBytes: -1 } })],
    ['a larger file', ({ file }) => ({ file: { ...file, sizeBytes: file.sizeBytes + 1 } })],
    ['a smaller file', ({ file }) => ({ file: { ...file, sizeBytes: 1 } })],
    ['another file', ({ file }) => ({ file: { ...file, name: 'boot.vfat' } })],
    ['no whole files', () => ({ whole: [] })],
    ['a whole file twice', ({ whole }) => ({ whole: [...whole, ...whole] })],
    ['a whole file that there is not', ({ whole }) => ({ whole: whole.map((each) => ({ ...each, name: 'no' })) })],
    ['smaller whole files', ({ whole }) => ({ whole: whole.map((each) => ({ ...each, sizeBytes: 1 })) })],
    ['this file as a whole one', ({ whole, file }) => ({ whole: [...whole, { ...file, payload: 1 }] })],
  ];
  test.each(wrong)('where it names %s', async (_, change) => {
    const made = bench();
    await interrupted(made);
    const source = await resumedWith(made, { ...placeOf(made), ...change(placeOf(made)) });
    expect(source.openings.at(-1)).toBeUndefined();
  });

  /** It succeeds with any checkpoint. */
  async function resumedWith(cut: Bench, artifact: ArtifactPlace): Promise<MemorySource> {
    const made = bench(Infinity);
    for (const [name, slot] of cut.slots) made.slotOf(name).content = Buffer.from(slot.content);
    made.checkpoint = { ...checkpointOf(cut), artifact };
    const source = new MemorySource(text, { validator });
    const staged = await made.stage(source);
    expect(staged.payloads).toHaveLength(3);
    expectWhole(made);
    return source;
  }
});

function artifactOf(payloads: readonly (readonly PayloadFile[])[]): ArtifactOptions {
  const [first = { files: [] }, ...furtherPayloads] = payloads.map((files) => ({
    files,
    targets: Object.fromEntries(files.map(({ name }) => [name, name])),
  }));
  return { name: 'any', devices: ['gw'], key, ...first, furtherPayloads };
}
