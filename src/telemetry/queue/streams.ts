import { TelemetryError } from '../errors.ts';
import type { PointTime } from '../point.ts';
import type { QueuedPoint } from './batch.ts';
import type { StreamRecord } from './database/records.ts';

/** The bound for events, and for properties whose values wait. More are a mistake, for example names made of values. */
const MAX_STREAMS = 10_000;
/** Datapoints of the same moment get times one after the other. A time further ahead came from a clock that was wrong. */
const MAX_AHEAD_MS = 3_600_000;

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
  readonly #streams = { event: new Map<string, Stream>(), property: new Map<string, Stream>() };
  readonly #byId = new Map<number, Stream>();
  #nextId = 1;

  constructor(configured: ReadonlySet<string> = new Set()) {
    this.#configured = configured;
  }

  of({ kind, name }: StreamName): Stream {
    const known = this.#streams[kind].get(name);
    if (known !== undefined) return known;
    if (this.#streams[kind].size >= MAX_STREAMS && !(kind === 'event' && this.#configured.has(name))) {
      const what = kind === 'event' ? 'events are kept apart' : 'properties wait at the same time';
      throw new TelemetryError('too-many-names', `no more than ${MAX_STREAMS} ${what}`);
    }
    return this.#add({ kind, name });
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

  /** Forgets a property: its value is settled. */
  forget(stream: Stream): void {
    stream.revision += 1;
    this.#streams.property.delete(stream.name);
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
    const last = { atMs: 0, sinceBootMs: 0 };
    const stream: Stream = { id: undefined, ...name, last, revision: 0, mayBeOnDisk: false };
    this.#streams[name.kind].set(name.name, stream);
    return stream;
  }
}

function nextAfter(lastMs: number, nowMs: number): number {
  return lastMs - nowMs > MAX_AHEAD_MS ? nowMs : Math.max(nowMs, lastMs + 1);
}
