import { TelemetryError } from '../errors.ts';
import type { PointTime } from '../point.ts';
import type { QueuedPoint } from './batch.ts';
import type { StreamRecord } from './database/records.ts';

/** The bound for events and for properties with waiting values. More are a mistake, for example names made of values. */
const MAX_STREAMS = 10_000;
/** The share for events that were used last and do not wait: new names cannot push them out. */
const KEPT_SHARE = 0.1;
/** Datapoints of the same moment get times one after the other. A time further ahead came from a clock that was wrong. */
const MAX_AHEAD_MS = 60_000;

/** An event, or a property whose value waits. */
export interface Stream {
  /** The id of its row. Undefined if it has none yet. */
  id: number | undefined;
  readonly kind: 'event' | 'property';
  readonly name: string;
  /** The last times that were given to its datapoints; the next ones are later. */
  readonly last: { atMs: number; sinceBootMs: number };
  /** Rises with each value of a property: only the last one counts. */
  revision: number;
  /** False if it has no datapoints on disk. */
  mayBeOnDisk: boolean;
}

type StreamName = Pick<Stream, 'kind' | 'name'>;

/** All streams, and the times of their datapoints, which are unique and rise within an event. */
export class StreamRegistry {
  /** The events of the configuration, which are accepted however many names others make up. */
  readonly #configured: ReadonlySet<string>;
  readonly #maxEvents: number;
  /** By name. The event that was used least recently is the first one. */
  readonly #streams = { event: new Map<string, Stream>(), property: new Map<string, Stream>() };
  readonly #byId = new Map<number, Stream>();
  #nextId = 1;
  /** The last times of the forgotten events: if such an event comes again, its times are later. */
  readonly #forgotten = { atMs: 0, sinceBootMs: 0 };

  constructor(configured: ReadonlySet<string> = new Set(), maxEvents = MAX_STREAMS) {
    this.#configured = configured;
    this.#maxEvents = maxEvents;
  }

  /** Throws `too-many-names` for a property; for events see `surplus`. */
  of({ kind, name }: StreamName): Stream {
    const streams = this.#streams[kind];
    const known = streams.get(name);
    if (kind === 'property' && known === undefined && streams.size >= MAX_STREAMS)
      throw new TelemetryError('too-many-names', `no more than ${MAX_STREAMS} properties can have waiting values`);
    if (known === undefined) return this.#add({ kind, name });
    streams.delete(name);
    streams.set(name, known);
    return known;
  }

  /**
   * Returns the events to forget so that those with these names have room: of the ones that do not wait, the least
   * recently used. Throws `too-many-names`, so that made-up names do not push out the events of others.
   */
  surplus(names: ReadonlySet<string>, waiting: () => ReadonlySet<Stream>): readonly Stream[] {
    const events = this.#streams.event;
    const added = [...names].filter((name) => !events.has(name) && !this.#configured.has(name)).length;
    const surplus = events.size + added - this.#maxEvents;
    if (added === 0 || surplus <= 0) return [];
    const busy = waiting();
    const idle = events
      .values()
      .filter((stream) => !busy.has(stream) && !names.has(stream.name))
      .toArray();
    if (idle.length < surplus + Math.floor(this.#maxEvents * KEPT_SHARE))
      throw new TelemetryError('too-many-names', `too many of ${this.#maxEvents} events have waiting values`);
    return idle.slice(0, surplus);
  }

  byId(id: number): Stream | undefined {
    return this.#byId.get(id);
  }

  all(kind: Stream['kind']): IteratorObject<Stream> {
    return this.#streams[kind].values();
  }

  /** The number of properties whose values wait. */
  get properties(): number {
    return this.#streams.property.size;
  }

  idOf(stream: Stream): number {
    if (stream.id === undefined) {
      stream.id = this.#nextId;
      this.#nextId += 1;
      this.#byId.set(stream.id, stream);
    }
    return stream.id;
  }

  records(): readonly StreamRecord[] {
    const all = [...this.all('event'), ...this.all('property')];
    return all.map((stream) => this.recordOf(stream));
  }

  recordOf(stream: Stream): StreamRecord {
    const { kind, name, last } = stream;
    return { id: this.idOf(stream), kind, name, lastAtMs: last.atMs, lastSinceBootMs: last.sinceBootMs };
  }

  /** Forgets a stream, whose values are settled. */
  forget(stream: Stream): void {
    stream.revision += 1;
    this.#streams[stream.kind].delete(stream.name);
    for (const time of ['atMs', 'sinceBootMs'] as const)
      this.#forgotten[time] = Math.max(this.#forgotten[time], stream.last[time]);
    if (stream.id !== undefined) this.#byId.delete(stream.id);
  }

  /** Adopts the streams of a newly opened database. Streams that it lacks get an id when they are written. */
  adopt(records: readonly StreamRecord[], isThisBoot: boolean): void {
    this.#byId.clear();
    for (const kind of ['event', 'property'] as const) for (const stream of this.all(kind)) stream.id = undefined;
    for (const { id, lastAtMs, lastSinceBootMs, ...name } of records) {
      const stream = this.#streams[name.kind].get(name.name) ?? this.#add(name);
      stream.id = id;
      stream.last.atMs = Math.max(stream.last.atMs, lastAtMs);
      if (isThisBoot) stream.last.sinceBootMs = Math.max(stream.last.sinceBootMs, lastSinceBootMs);
      stream.mayBeOnDisk = true;
      this.#byId.set(id, stream);
      this.#nextId = Math.max(this.#nextId, id + 1);
    }
  }

  stamp({ last }: Stream, time: PointTime, nowSinceBootMs: number): Pick<QueuedPoint, 'atMs' | 'sinceBootMs'> {
    const now = Math.round(nowSinceBootMs);
    switch (time.kind) {
      case 'given':
        return { atMs: Math.round(time.atMs), sinceBootMs: now };
      case 'known':
        last.atMs = nextAfter(last.atMs, Math.round(time.atMs));
        return { atMs: last.atMs, sinceBootMs: now };
      case 'since-boot':
        last.sinceBootMs = Math.max(now, last.sinceBootMs + 1);
        return { atMs: undefined, sinceBootMs: last.sinceBootMs };
    }
  }

  /** The clock was set: new datapoints get later times than those that waited for that. */
  learnStart(startedAtMs: number): void {
    for (const { last } of this.all('event')) last.atMs = Math.max(last.atMs, startedAtMs + last.sinceBootMs);
  }

  #add(name: StreamName): Stream {
    const last = { ...this.#forgotten };
    const stream: Stream = { id: undefined, ...name, last, revision: 0, mayBeOnDisk: false };
    this.#streams[name.kind].set(name.name, stream);
    return stream;
  }
}

function nextAfter(lastMs: number, nowMs: number): number {
  return lastMs - nowMs > MAX_AHEAD_MS ? nowMs : Math.max(nowMs, lastMs + 1);
}
