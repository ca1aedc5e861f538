import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { howMuch } from '../../full.ts';
import { MemorySource } from './sources.ts';
import type { MemorySourceOptions } from './sources.ts';
import { Bench, failureOf } from './staging.ts';
import { encode, encodingOf, fractions, jsonString, spellings, variants } from './text/wire-text.ts';

const validator = '"v1"';

function bench(bytes = 1000): Bench {
  const made = new Bench();
  made.settings = { ...made.settings, checkpointDistance: { bytes, shortestMs: 0, longestMs: Infinity } };
  return made;
}

const image = Buffer.from(Array.from({ length: 120_000 }, (_, n) => (n * n) >>> 3));
const text = jsonString(encode(image, 'base64'), ['plain', 'slash', 'plain', 'newline']);

/** A source whose first transfer breaks off near its end. */
function brokenSource(options: MemorySourceOptions = {}): MemorySource {
  return new MemorySource(text, { validator, chunkSizes: [7000, 1, 640], cutsAt: [text.length * 0.8], ...options });
}

/** Stages as far as the source goes, then cuts the power. */
async function interrupted(made: Bench, source: MemorySource): Promise<void> {
  await expect(made.stage(source)).rejects.toMatchObject({ code: 'link-lost' });
  made.slot.cutPower();
}

describe('a raw image', () => {
  test('goes on after any cut, of any text, from its last checkpoint, with the same bytes', async () => {
    const content = fc.uint8Array({ minLength: 200, maxLength: 3000 });
    const wire = fc.record({ variant: fc.constantFrom(...variants), spelled: spellings });
    await fc.assert(
      fc.asyncProperty(content, wire, fractions, fc.integer({ min: 1, max: 400 }), async (bytes, form, cuts, every) => {
        const encoded = jsonString(encode(bytes, form.variant), form.spelled);
        const cutsAt = cuts.map((cut) => Math.floor(cut * encoded.length));
        const source = new MemorySource(encoded, { validator, chunkSizes: [97, 1, 33], cutsAt });
        const made = bench(every);
        made.settings = { ...made.settings, encoding: encodingOf(form.variant) };
        for (let attempt = 0; made.slot.finished === undefined; attempt += 1) {
          expect(attempt).toBeLessThanOrEqual(cuts.length);
          const failure = await failureOf(made.stage(source));
          if (failure !== undefined) made.slot.cutPower();
        }
        expect(made.slot.finished.equals(bytes)).toBe(true);
      }),
      { numRuns: howMuch(150, 60) },
    );
  });

  test('asks for the rest only, opens the place with its prefix, and asks for consent again', async () => {
    const made = bench();
    const source = brokenSource();
    await interrupted(made, source);
    const { checkpoint } = made;
    expect(made.checkpoints).toBeGreaterThan(10);
    await made.stage(source);
    expect(made.slot.finished?.equals(image)).toBe(true);
    expect(source.openings).toEqual([undefined, checkpoint?.wire]);
    expect(made.slot.openings[1]?.resumeAt).toEqual(checkpoint?.image);
    expect(made.accepted).toHaveLength(2);
  });

  test('stores a checkpoint only of previously durable data', async () => {
    const made = bench();
    made.afterCheckpoint = () => made.slot.cutPower();
    await made.stage(new MemorySource(text, { validator }));
    expect(made.slot.finished?.equals(image)).toBe(true);
  });

  test.each([
    ['the text changed', { afterCut: (source: MemorySource) => (source.validator = '"v2"') }],
    ['the service sends all of it again', { options: { ignoresPosition: true } }],
  ] as const)('starts over in the same transfer where %s', async (_, given) => {
    const made = bench();
    const source = brokenSource('options' in given ? given.options : {});
    await interrupted(made, source);
    if ('afterCut' in given) given.afterCut(source);
    await made.stage(source);
    expect(made.slot.finished?.equals(image)).toBe(true);
    expect(source.openings).toHaveLength(2);
    expect(made.slot.openings[1]?.resumeAt).toBeUndefined();
  });

  test('starts over with a new transfer where the place holds something else, with one consent', async () => {
    const made = bench();
    const source = brokenSource();
    await interrupted(made, source);
    made.slot.content.fill(0, 100, 101);
    await made.stage(source);
    expect(made.slot.finished?.equals(image)).toBe(true);
    expect(source.openings.map((from) => from !== undefined)).toEqual([false, true, false]);
    expect(made.slot.openings.map(({ resumeAt }) => resumeAt !== undefined)).toEqual([false, true, false]);
    expect(made.accepted).toHaveLength(2);
    expect(source.unclosed).toBe(0);
  });

  test('is not resumed in another encoding than the operator has set since', async () => {
    const made = bench();
    const source = brokenSource();
    await interrupted(made, source);
    made.settings = { ...made.settings, encoding: 'hex' };
    await expect(made.stage(source)).rejects.toMatchObject({ code: 'text-illegal-character' });
    expect(source.openings[1]).toBeUndefined();
  });

  test('is not resumed once the operator no longer permits it', async () => {
    const made = bench();
    const source = brokenSource();
    await interrupted(made, source);
    made.settings = { ...made.settings, trust: { keys: [], allowUnsigned: false } };
    await expect(made.stage(source)).rejects.toMatchObject({ code: 'image-unsigned' });
    expect(made.slot.openings).toHaveLength(1);
  });

  test.each([
    ['no validator', { validator: undefined }],
    ['no total length', { tellsTotal: false }],
    ['no text, but a file', { form: 'decoded' as const }],
  ])('has no checkpoints where there is %s', async (_, options) => {
    const made = bench();
    await interrupted(made, brokenSource(options));
    expect(made.checkpoints).toBe(0);
  });
});
