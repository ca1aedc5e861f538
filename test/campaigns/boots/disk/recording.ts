import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

import * as z from 'zod';

import { readWriteLog } from './write-log.ts';
import type { DiskEvent } from './write-log.ts';

/** The service's record of the gateway. */
const thingSchema = z.strictObject({
  thingId: z.string(),
  serialNumber: z.string(),
  apiKey: z.string(),
  activations: z.number(),
  currentVersionId: z.string().optional(),
});
export type KnownThing = z.infer<typeof thingSchema>;

const happeningSchema = z.discriminatedUnion('kind', [
  /** The owner wants this version from now on. */
  z.strictObject({ kind: z.literal('wanted'), at: z.number(), version: z.string() }),
  /** The service's record after each change. */
  z.strictObject({ kind: z.literal('known'), at: z.number(), thing: thingSchema }),
  z.strictObject({ kind: z.literal('reported'), at: z.number(), outcome: z.string() }),
  /** A line of the console. */
  z.strictObject({ kind: z.literal('line'), at: z.number(), text: z.string() }),
]);
export type Happening = z.infer<typeof happeningSchema>;

const partitionSchema = z.strictObject({ name: z.string(), sector: z.number(), sectors: z.number() });
export type Partition = z.infer<typeof partitionSchema>;

export const recordingSchema = z.strictObject({
  scene: z.string(),
  bootType: z.enum(['ext4', 'vfat']),
  cycles: z.number(),
  /** Versions that a slot may hold, and their images. */
  images: z.record(z.string(), z.string()),
  /** The same of the second partition of a slot; empty: slots have one. */
  kernels: z.record(z.string(), z.string()),
  /** The same of the memory of a board; empty: the gateway has none. */
  boards: z.record(z.string(), z.string()),
  firmware: z.record(z.string(), z.string()),
  partitions: z.array(partitionSchema),
  happenings: z.array(happeningSchema),
  seconds: z.number(),
});
export type RecordingFacts = z.infer<typeof recordingSchema>;

/** The history of a gateway's disk and of external observations. Positions are bytes of the log. */
export interface Recording extends RecordingFacts {
  readonly folder: string;
  /** The disk before the first write. */
  readonly base: string;
  readonly events: readonly DiskEvent[];
  readonly boardWrites: readonly BoardWrite[];
}

/** A page of a board's flash memory that changed, at this place in the history of the disk. */
export interface BoardWrite {
  readonly at: number;
  readonly address: number;
  readonly bytes: Buffer;
}

export function readRecording(folder: string): Recording {
  const facts = recordingSchema.parse(JSON.parse(readFileSync(join(folder, 'recording.json'), 'utf8')));
  const events: DiskEvent[] = [];
  let position = 0;
  for (let cycle = 0; cycle < facts.cycles; cycle += 1) {
    const log = join(folder, `writes-${cycle}`);
    for (const event of readWriteLog(log, position)) events.push(event);
    position += statSync(log).size;
  }
  return {
    ...facts,
    folder,
    base: join(folder, 'base.img'),
    events,
    boardWrites: spread(readBoardWrites(folder), events),
  };
}

/** Pages that changed between two events of the disk, spread over the place between these: a cut may fall between any two. */
export function spread(writes: readonly BoardWrite[], events: readonly DiskEvent[]): readonly BoardWrite[] {
  const groups = Map.groupBy(writes, ({ at }) => at);
  return [...groups].flatMap(([at, group]) => {
    const end = events.find(({ position }) => position > at)?.position ?? at;
    return group.map((write, place) => ({ ...write, at: at + ((end - at) * (place + 1)) / (group.length + 1) }));
  });
}

/** As simboot notes them. */
function readBoardWrites(folder: string): readonly BoardWrite[] {
  const notes = join(folder, 'board-writes');
  if (!existsSync(notes)) return [];
  return [...readFileSync(notes, 'latin1').matchAll(/^(\d+) (\d+) ([0-9a-f]+)$/gm)].map(
    ([, at, address, bytes = '']) => ({ at: Number(at), address: Number(address), bytes: Buffer.from(bytes, 'hex') }),
  );
}

export function partitionOf(recording: Pick<RecordingFacts, 'partitions'>, name: string): Partition {
  const found = recording.partitions.find((partition) => partition.name === name);
  if (found === undefined) throw new Error(`the disk has no partition ${name}`);
  return found;
}
