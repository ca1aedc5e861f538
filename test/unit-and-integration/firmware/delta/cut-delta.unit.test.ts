import { randomBytes } from 'node:crypto';

import { expect, test } from 'vitest';

import { claimsOf } from '../../../../src/firmware/delta/encode.ts';
import type { Checkpoint } from '../../../../src/update/ports.ts';
import type { StagedPayload } from '../../../../src/update/ports/incoming.ts';
import { buildArtifact } from '../artifact/build-artifact.ts';
import { makeKeyPair } from '../artifact/keys.ts';
import { MemorySource } from '../sources.ts';
import { Bench, failureOf } from '../staging.ts';
import { encode, jsonString } from '../text/wire-text.ts';
import { deltaOf } from './delta-bench.ts';

const { privateKey: key, trusted } = makeKeyPair('ed25519');
const base = randomBytes(200_000);
const result = Buffer.concat([base.subarray(0, 60_000), randomBytes(120_000), base.subarray(60_000)]);
const meter = randomBytes(20_000);

const content = await deltaOf(base, result, 16_384);
const deltaBytes = content.byteLength;

/** A delta of several windows, and a whole file behind it. */
async function text(): Promise<string> {
  const artifact = await buildArtifact({
    name: '2',
    devices: ['gw'],
    key,
    files: [
      { name: 'root.delta', content },
      { name: 'meter.hex', content: meter },
    ],
    targets: { 'meter.hex': 'meter' },
    deltas: { 'root.delta': { target: 'gateway', ...claimsOf(base, result) } },
  });
  return jsonString(encode(artifact, 'base64'), ['plain']);
}

function bench(): Bench {
  const made = new Bench();
  made.hasPlaceForEach = true;
  made.base = base;
  const checkpointDistance = { bytes: 1, shortestMs: 0, longestMs: Infinity };
  made.settings = { ...made.settings, trust: { keys: [trusted], allowUnsigned: false }, checkpointDistance };
  return made;
}

const whole = await text();

interface Cut {
  readonly made: Bench;
  readonly kept: Checkpoint | undefined;
  readonly payloads: readonly StagedPayload[];
}

/** Cut after this part of the text, with the power, and staged again. */
async function cutAt(part: number): Promise<Cut> {
  const made = bench();
  const options = { validator: '"v1"', chunkSizes: [640], cutsAt: [Math.floor(whole.length * part)] };
  const source = new MemorySource(whole, options);
  expect(await failureOf(made.stage(source))).toMatchObject({ code: 'link-lost' });
  const kept = made.checkpoint;
  made.cutPower();
  const { payloads } = await made.stage(source);
  expect(made.slotOf('root.delta').finished?.equals(result)).toBe(true);
  expect(made.slotOf('meter.hex').finished?.equals(meter)).toBe(true);
  expect(payloads.map(({ promise }) => promise)).toMatchObject([
    { kind: 'manifest', digest: claimsOf(base, result).result.digest },
    { kind: 'manifest' },
  ]);
  return { made, kept, payloads };
}

test('resumes an interrupted delta after its rebuilt part, also if a file follows', async () => {
  for (const part of [0.5, 0.7]) {
    const { made, kept, payloads } = await cutAt(part);
    expect(payloads[0]?.written.deltaBaseBytes).toBe(result.byteLength - deltaBytes);
    expect(kept?.artifact?.file.name).toBe('root.delta');
    expect(made.slotOf('root.delta').openings.map(({ resumeAt }) => resumeAt)).toEqual([undefined, kept?.image]);
  }
});

test('a file behind a delta goes on at its checkpoint, and the rebuilt one is read, not made again', async () => {
  const { made, kept } = await cutAt(0.97);
  expect(kept?.artifact?.file.name).toBe('meter.hex');
  const openings = made.slotOf('root.delta').openings.map(({ resumeAt }) => resumeAt);
  expect(openings).toEqual([undefined, claimsOf(base, result).result]);
});

test('ignores a checkpoint without a position in the delta: it starts again', async () => {
  const { made } = await cutAt(0.97);
  const { checkpoint } = made;
  if (checkpoint?.artifact === undefined) throw new Error('no checkpoint');
  const { artifact } = checkpoint;
  const file = { ...artifact.file, name: 'root.delta' };
  const again = bench();
  again.slotOf('root.delta').content = Buffer.from(meter.subarray(0, checkpoint.image.sizeBytes));
  again.checkpoint = { ...checkpoint, artifact: { ...artifact, file, whole: [] } };
  await again.stage(new MemorySource(whole, { validator: '"v1"' }));
  expect(again.slotOf('root.delta').finished?.equals(result)).toBe(true);
});
