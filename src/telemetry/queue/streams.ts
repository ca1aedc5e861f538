import { TelemetryError } from '../errors.ts';
import type { NewPoint, PointClass, PointTime } from '../point.ts';
import type { StreamRecord } from './database/records.ts';

/** The bound for events in each class. More are a mistake, for example names made of measured values. */
const MAX_STREAMS = 10_000;
/** Points of the same moment get times one after the other. A time further ahead came from a clock that was wrong. */
const MAX_AHEAD_MS = 3_600_000;

/** The last times that were given to points of an event; the next ones are later. */
interface LastTimes {
  atMs: number;
  sinceBootMs: number;
}

/** An event in a class. */
export interface Stream {
  /** The id of its row; undefined: it has none yet. */
  id: number | undefined;
  readonly event: string;
  readonly class: PointClass;
  readonly last: LastTimes;
}

export interface StreamPosition {
  /** Undefined: the clock is not set. */
  readonly atMs: number | undefined;
  readonly sinceBootMs: number;
}

/** All streams, and the times of their points, which are unique and rise within an event. */
export class StreamRegistry {
  /** The events of the configuration, which are accepted however many names others make up. */
  readonly #configured: ReadonlySet<string>;
  readonly #streams = new Map<string, Stream>();
  readonly #byId = new Map<number, Stream>();
  readonly #last = new Map<string, LastTimes>();
  #nextId = 1;

  constructor(configured: ReadonlySet<string> = new Set()) {
    this.#configured = configured;
  }

  of(name: Pick<NewPoint, 'event' | 'class'>): Stream {
    const known = this.#streams.get(keyOf(name));
    if (known !== undefined) return known;
    if (this.#streams.size >= MAX_STREAMS && !this.#configured.has(name.event)) {
      throw new TelemetryError('too-many-names', `no more than ${MAX_STREAMS} events are kept apart`);
    }
    return this.#add(name);
  }

  #add({ event, class: pointClass }: Pick<NewPoint, 'event' | 'class'>): Stream {
    const key = keyOf({ event, class: pointClass });
    const stream: Stream = { id: undefined, event, class: pointClass, last: this.#lastOf(event) };
    this.#streams.set(key, stream);
    return stream;
  }

  byId(id: number): Stream | undefined {
    return this.#byId.get(id);
  }

  all(): IteratorObject<Stream> {
    return this.#streams.values();
  }

  idOf(stream: Stream): number {
    if (stream.id === undefined) {
      stream.id = this.#nextId;
      this.#nextId += 1;
      this.#byId.set(stream.id, stream);
    }
    return stream.id;
  }

  recordOf(stream: Stream): StreamRecord {
    const { event, last } = stream;
    const times = { lastAtMs: last.atMs, lastSinceBootMs: last.sinceBootMs };
    return { id: this.idOf(stream), event, class: stream.class, ...times };
  }

  /** Takes over the streams of a newly opened database. Streams that it lacks get an id when they are written. */
  adopt(records: readonly StreamRecord[], isThisBoot: boolean): void {
    this.#byId.clear();
    for (const stream of this.#streams.values()) stream.id = undefined;
    for (const { id, lastAtMs, lastSinceBootMs, ...name } of records) {
      const stream = this.#streams.get(keyOf(name)) ?? this.#add(name);
      stream.id = id;
      stream.last.atMs = Math.max(stream.last.atMs, lastAtMs);
      if (isThisBoot) stream.last.sinceBootMs = Math.max(stream.last.sinceBootMs, lastSinceBootMs);
      this.#byId.set(id, stream);
      this.#nextId = Math.max(this.#nextId, id + 1);
    }
  }

  stamp(stream: Stream, time: PointTime, nowSinceBootMs: number): StreamPosition {
    const { last } = stream;
    switch (time.kind) {
      case 'given':
        return { atMs: Math.round(time.atMs), sinceBootMs: Math.round(nowSinceBootMs) };
      case 'known':
        last.atMs = nextAfter(last.atMs, Math.round(time.atMs));
        return { atMs: last.atMs, sinceBootMs: Math.round(nowSinceBootMs) };
      case 'since-boot':
        last.sinceBootMs = Math.max(Math.round(nowSinceBootMs), last.sinceBootMs + 1);
        return { atMs: undefined, sinceBootMs: last.sinceBootMs };
    }
  }

  /** The clock was set: new points get later times than those that waited for that. */
  learnStart(startedAtMs: number): void {
    for (const last of this.#last.values()) last.atMs = Math.max(last.atMs, startedAtMs + last.sinceBootMs);
  }

  #lastOf(event: string): LastTimes {
    const known = this.#last.get(event);
    if (known !== undefined) return known;
    const last = { atMs: 0, sinceBootMs: 0 };
    this.#last.set(event, last);
    return last;
  }
}

function keyOf({ event, class: pointClass }: Pick<NewPoint, 'event' | 'class'>): string {
  return `${pointClass} ${event}`;
}

function nextAfter(lastMs: number, nowMs: number): number {
  return lastMs - nowMs > MAX_AHEAD_MS ? nowMs : Math.max(nowMs, lastMs + 1);
}
