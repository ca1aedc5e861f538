import { seededRandom } from '../../../fakes/machine/power.ts';
import type { Recording } from './recording.ts';
import { SECTOR } from './write-log.ts';
import type { DiskEvent } from './write-log.ts';

/** The parts of a recording that determine the content after an interruption. */
export type History = Pick<Recording, 'events' | 'boardWrites' | 'partitions'>;

/** The fate of writes that the disk accepted but did not flush. */
export type Loss = 'none' | 'all' | 'some' | 'torn';

/** An instant at which the power fails. It and its recording say what the disk holds afterwards. */
export interface Cut {
  readonly seed: number;
  /** Index of the interrupted event. */
  readonly event: number;
  /** Place in the history, between the event before and this one. */
  readonly position: number;
  readonly loss: Loss;
}

/** A write that a cut left, or a part of one. */
export interface Survivor {
  readonly index: number;
  readonly event: DiskEvent;
  /** Sectors of a torn write that arrived. Default: all. */
  readonly arrived?: readonly boolean[];
}

/** Which events are durable when the event with an index has not happened yet: a table of the recording. */
export class Flushes {
  /** By event: all before this index are durable. */
  readonly #durable: Uint32Array;

  constructor(events: readonly DiskEvent[]) {
    this.#durable = new Uint32Array(events.length + 1);
    let flushed = 0;
    for (const [index, event] of events.entries()) {
      this.#durable[index] = flushed;
      if (event.kind === 'flush') flushed = index;
    }
    this.#durable[events.length] = flushed;
  }

  durableBefore(event: number): number {
    return this.#durable[event] ?? 0;
  }
}

const losses: readonly Loss[] = ['none', 'all', 'some', 'some', 'some', 'some', 'some', 'torn', 'torn', 'torn'];

/** Half of the cuts anywhere in the log, half of them about what changes boot environment, journal and board. */
export function drawCut(recording: History, seed: number): Cut {
  const random = seededRandom(seed);
  const { events } = recording;
  const pick = <T>(list: readonly T[]): T | undefined => list[Math.floor(random() * list.length)];
  const decisive = decisiveEvents(recording);
  const about = random() < 0.5 ? pick(decisive) : undefined;
  const anywhere = Math.floor(random() * (events.length + 1));
  const near = about === undefined ? anywhere : about + Math.floor(random() * 4) - 1;
  const event = Math.min(Math.max(near, 0), events.length);
  const from = events[event - 1]?.position ?? 0;
  const to = events[event]?.position ?? from + 1;
  return { seed, event, position: from + random() * (to - from), loss: pick(losses) ?? 'some' };
}

const decisiveByRecording = new WeakMap<History, readonly number[]>();

function decisiveEvents(recording: History): readonly number[] {
  const known = decisiveByRecording.get(recording);
  if (known !== undefined) return known;
  const areas = recording.partitions.filter(({ name }) => name === 'boot' || name === 'state');
  const isDecisive = ({ kind, sector }: DiskEvent): boolean =>
    kind === 'write' && areas.some((area) => sector >= area.sector && sector < area.sector + area.sectors);
  const found = [...recording.events.keys()].filter((index) => {
    const event = recording.events[index];
    return event !== undefined && isDecisive(event);
  });
  const flashed = recording.boardWrites.map(({ at }) => recording.events.findIndex(({ position }) => position > at));
  found.push(...flashed.filter((index) => index >= 0));
  decisiveByRecording.set(recording, found);
  return found;
}

/** Returns the nondurable writes that reached the medium, in order, including the interrupted one. */
export function survivors(recording: History, flushes: Flushes, cut: Cut): readonly Survivor[] {
  const random = seededRandom(cut.seed ^ 0x5bd1e995);
  const share = random();
  const found: Survivor[] = [];
  for (let index = flushes.durableBefore(cut.event); index <= cut.event; index += 1) {
    const event = recording.events[index];
    if (event === undefined || event.kind === 'flush') continue;
    const isUnderWay = index === cut.event;
    if (!isUnderWay && (event.isDurable || cut.loss === 'none')) found.push({ index, event });
    else if (cut.loss !== 'all' && cut.loss !== 'none' && random() < share) found.push({ index, event });
  }
  if (cut.loss !== 'torn') return found;
  const chosen = Math.floor(random() * found.length);
  return found.map((survivor, place) => (place === chosen ? tear(survivor, random) : survivor));
}

/** A torn write arrived up to a sector, or in any of its sectors. Sectors and durable writes are never torn. */
function tear(survivor: Survivor, random: () => number): Survivor {
  const { sectors, isDurable, data } = survivor.event;
  if (isDurable || data.byteLength <= SECTOR) return survivor;
  const end = Math.floor(random() * sectors);
  const isInOrder = random() < 0.5;
  return { ...survivor, arrived: Array.from({ length: sectors }, (_, at) => (isInOrder ? at < end : random() < 0.5)) };
}

/** Runs of sectors that arrived: first sector of the disk, and bytes. */
export function* pieces({ event, arrived }: Survivor): Generator<{ readonly sector: number; readonly data: Buffer }> {
  if (arrived === undefined) {
    yield { sector: event.sector, data: event.data };
    return;
  }
  for (let at = 0; at < event.sectors; at += 1) {
    if (arrived[at] !== true) continue;
    yield { sector: event.sector + at, data: event.data.subarray(at * SECTOR, (at + 1) * SECTOR) };
  }
}
