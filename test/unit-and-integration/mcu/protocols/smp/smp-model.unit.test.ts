import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, test } from 'vitest';
import * as z from 'zod';

import { isArray, isMap } from '../../../../../src/mcu/protocols/cbor.ts';
import type { Cbor, CborMap } from '../../../../../src/mcu/protocols/cbor.ts';
import { McubootImage } from '../../../../fakes/boards/models/smp/mcuboot.ts';
import { SerialRecovery } from '../../../../fakes/boards/models/smp/smp-servers.ts';
import { mcubootFile } from '../../images/build.ts';

/**
 * Replies of a real MCUboot: bootutil and boot_serial of MCUboot at 2d4bacc3 (2.4.0 and later), compiled for Linux
 * without change, with slots in memory and its UART on a pipe. `runs`: the content of the slots after a start. Hashes
 * are replaced by the names of their images.
 */
const recorded = await readFile(join(import.meta.dirname, 'mcuboot-2.4.0.jsonl'), 'utf8');

const file = (fill: number, major: number): Buffer =>
  mcubootFile(new Uint8Array(64).fill(fill), undefined, undefined, major);
const broken = file(9, 9);
broken[40] = 8;
const files: Readonly<Record<string, Buffer>> = { v1: file(1, 1), v2: file(2, 2), v3: file(3, 3), broken };

const fileNamed = (name: unknown): Buffer => files[String(name)] ?? Buffer.alloc(0);
const hashNamed = (name: unknown): Buffer => createHash('sha256').update(fileNamed(name).subarray(0, 96)).digest();

const story = z.object({
  name: z.string(),
  slots: z.array(z.string()),
  mode: z.enum(['swap', 'overwrite']),
  hashes: z.boolean(),
  states: z.boolean(),
  images: z.number(),
  direct: z.boolean(),
  steps: z.array(
    z.object({
      ask: z.tuple([z.string()], z.unknown()),
      answers: z.array(z.unknown()).optional(),
      runs: z.array(z.tuple([z.string(), z.string()])).optional(),
    }),
  ),
});
type Story = z.output<typeof story>;

const stories = recorded
  .trim()
  .split('\n')
  .map((line) => story.parse(JSON.parse(line)));

/** Carries out one step on the model, and returns what MCUboot is recorded to have returned. */
function answersOf(model: SerialRecovery, [verb, ...args]: Story['steps'][number]['ask']): Cbor[] {
  const [first, second, third] = args;
  switch (verb) {
    case 'list':
      return [model.obey(false, 1, 0, {})];
    case 'select':
      return [model.obey(true, 1, 0, { hash: hashNamed(first), confirm: second === true })];
    case 'raw':
      return [model.obey(first === 1, Number(second), Number(third), {})];
    default:
      return uploaded(model, fileNamed(first), second ?? undefined, third ?? undefined);
  }
}

function uploaded(model: SerialRecovery, data: Buffer, image: unknown, cut: unknown): CborMap[] {
  const answers: CborMap[] = [];
  const chunkBytes = typeof cut === 'number' ? cut : 64;
  for (let off = 0; off < data.byteLength;) {
    const first = { ...(typeof image === 'number' && { image }), len: data.byteLength };
    const chunk = { ...(off === 0 && first), off, data: data.subarray(off, off + chunkBytes) };
    const answer = model.obey(true, 1, 1, chunk);
    answers.push(answer);
    if (answer['rc'] !== 0) break;
    off = Number(answer['off']);
  }
  if (cut !== undefined) answers.push(model.obey(true, 1, 1, { off: 4, data: Buffer.alloc(4) }));
  return answers;
}

/** Replaces hashes by the names of their images. */
function named(value: Cbor): unknown {
  if (value instanceof Uint8Array) {
    return `#${Object.keys(files).find((name) => hashNamed(name).equals(value)) ?? 'unknown'}`;
  }
  if (isArray(value)) return value.map(named);
  if (isMap(value)) return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, named(entry)]));
  return value;
}

function nameOf(held: Uint8Array | undefined): string {
  const found = Object.entries(files).find(([, bytes]) => held !== undefined && bytes.equals(held));
  return found?.[0] ?? '-';
}

test.each(stories.map((told) => [told.name, told] as const))('answers as a real MCUboot: %s', (_, told) => {
  const { slots, mode, hashes, states, direct, steps } = told;
  const inSlot = (slot: number): Uint8Array | undefined =>
    slots[slot] === undefined ? undefined : fileNamed(slots[slot]);
  const images = Array.from({ length: told.images }, (__, image) => {
    return new McubootImage(mode, inSlot(2 * image), inSlot(2 * image + 1));
  });
  const model = new SerialRecovery({ images, bufferBytes: 512, hashes, states, direct }, { onWrite: () => true });
  for (const { ask, answers, runs } of steps) {
    if (runs !== undefined) for (const image of images) image.start();
    const held = images.map((image) => image.slots.map((slot) => nameOf(slot.image)));
    const answered = runs === undefined ? answersOf(model, ask).map(named) : undefined;
    expect({ ask, answers: answered, runs: runs === undefined ? undefined : held }).toEqual({ ask, answers, runs });
  }
});
