import { createCipheriv, createHash } from 'node:crypto';

import type { BlockGeometry } from '../../../src/slots/blocks/block-pool.ts';
import { BlockPool } from '../../../src/slots/blocks/block-pool.ts';
import { BlockWriter } from '../../../src/slots/blocks/block-writer.ts';
import { SlotMedium } from '../../../src/slots/slot-medium.ts';
import type { MediumDeps } from '../../../src/slots/slot-medium.ts';
import { silentLog } from '../../../src/system/log/log.ts';
import { systemClock } from '../../../src/system/time/clock.ts';
import type { WrittenPayload, WrittenPrefix } from '../../../src/update/ports.ts';
import type { CruelDevice } from './cruel-device.ts';
import { LazyHasher } from './lazy-hasher.ts';

export const where = 'slot B (cruel)';
export const blockBytes = 8192;
const smallBlocks: BlockGeometry = { blockBytes, blocks: 3 };

export interface WriterOptions {
  readonly capacityBytes: number;
  readonly resumeAt?: WrittenPrefix | undefined;
  readonly signal?: AbortSignal;
  readonly clock?: MediumDeps['clock'];
  readonly geometry?: BlockGeometry;
}

export const never = new AbortController().signal;

/** A writer over a cruel device, with small blocks. */
export async function openWriter(device: CruelDevice, options: WriterOptions): Promise<BlockWriter> {
  const world = { openDevice: device.open, clock: options.clock ?? systemClock, log: silentLog };
  await using opened = new AsyncDisposableStack();
  const medium = opened.use(await SlotMedium.open({ where, path: '/cruel', isBlockDevice: true }, 'write', world));
  const hasher = opened.use(new LazyHasher());
  const resources = new AsyncDisposableStack();
  const pool = new BlockPool(options.geometry ?? smallBlocks);
  const { capacityBytes, signal = never } = options;
  const writer = new BlockWriter({ where, capacityBytes, medium, hasher, pool, resources, signal });
  if (options.resumeAt !== undefined) await writer.resume(options.resumeAt);
  resources.use(opened.move());
  return writer;
}

/** Writes chunk by chunk, waiting when asked to; each chunk is destroyed as soon as `write` returns. */
export async function writeAll(writer: BlockWriter, chunks: Iterable<Uint8Array>): Promise<void> {
  for (const chunk of chunks) {
    const given = Buffer.from(chunk);
    const room = writer.write(given);
    given.fill(0xee);
    await room;
  }
}

export async function install(
  device: CruelDevice,
  image: Buffer,
  options: WriterOptions = { capacityBytes: image.byteLength },
): Promise<WrittenPayload> {
  await using writer = await openWriter(device, options);
  await writeAll(writer, cut(image, []));
  return await writer.finish(never);
}

/** Splits at these positions (modulo the length), in order. */
export function cut(image: Buffer, places: readonly number[]): readonly Buffer[] {
  const borders = places.map((place) => place % (image.byteLength + 1)).sort((a, b) => a - b);
  const edges = [0, ...borders, image.byteLength];
  return edges.slice(1).map((end, index) => image.subarray(edges[index], end));
}

/** Bytes that differ everywhere, the same for the same seed. */
export function noise(sizeBytes: number, seed = 1): Buffer {
  const key = Buffer.alloc(16, seed);
  return createCipheriv('aes-128-ctr', key, key).update(Buffer.alloc(sizeBytes));
}

export function digestOf(bytes: Uint8Array): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
}
