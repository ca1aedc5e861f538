import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';

import fc from 'fast-check';
import { expect, test } from 'vitest';

import { TelemetryError } from '../../../../src/telemetry/errors.ts';
import type { PointClass } from '../../../../src/telemetry/point.ts';
import type { Batch, TimedPoint } from '../../../../src/telemetry/queue/batch.ts';
import { QueueRig, ampleBounds, noStreams } from './queue-rig.ts';
import type { RigOptions } from './queue-rig.ts';

const classes = ['urgent', 'normal', 'bulk'] as const;

type Outcome = 'accept' | 'accept-half' | 'refuse-one' | 'fail';

type Step =
  | {
      readonly kind: 'push';
      readonly event: number;
      readonly class: PointClass;
      readonly count: number;
      readonly isTimed: boolean;
    }
  | {
      readonly kind: 'deliver';
      readonly lane: 'live' | 'backlog';
      readonly limit: number;
      readonly outcome: Outcome;
      readonly late: boolean;
    }
  | { readonly kind: 'set'; readonly property: number }
  | { readonly kind: 'deliver-property'; readonly outcome: Outcome; readonly late: boolean }
  | { readonly kind: 'flush' | 'learn-clock' }
  | { readonly kind: 'new-life'; readonly how: 'crash' | 'restart' | 'reboot' }
  | { readonly kind: 'disk'; readonly fails: boolean }
  | { readonly kind: 'wait'; readonly ms: number }
  | { readonly kind: 'corrupt'; readonly at: number; readonly how: 'page' | 'wal' | 'tail' };

const plainSteps: fc.Arbitrary<Step>[] = [
  fc.record({
    kind: fc.constant('push' as const),
    event: fc.nat(4),
    class: fc.constantFrom(...classes),
    count: fc.integer({ min: 1, max: 30 }),
    isTimed: fc.boolean(),
  }),
  fc.record({
    kind: fc.constant('deliver' as const),
    lane: fc.constantFrom('live' as const, 'backlog' as const),
    limit: fc.integer({ min: 1, max: 40 }),
    outcome: fc.constantFrom('accept' as const, 'accept-half' as const, 'refuse-one' as const, 'fail' as const),
    late: fc.boolean(),
  }),
  fc.record({ kind: fc.constant('set' as const), property: fc.nat(1) }),
  fc.record({
    kind: fc.constant('deliver-property' as const),
    outcome: fc.constantFrom('accept' as const, 'fail' as const),
    late: fc.boolean(),
  }),
  fc.record({ kind: fc.constantFrom('flush' as const, 'learn-clock' as const) }),
  fc.record({
    kind: fc.constant('new-life' as const),
    how: fc.constantFrom('crash' as const, 'restart' as const, 'reboot' as const),
  }),
  fc.record({ kind: fc.constant('disk' as const), fails: fc.boolean() }),
  fc.record({ kind: fc.constant('wait' as const), ms: fc.integer({ min: 0, max: 40_000 }) }),
];
const corrupt: fc.Arbitrary<Step> = fc.record({
  kind: fc.constant('corrupt' as const),
  at: fc.nat(1_000_000),
  how: fc.constantFrom('page' as const, 'wal' as const, 'tail' as const),
});

/** Records acknowledged, delivered and lost points. */
class Oracle implements Disposable {
  readonly rig: QueueRig;
  readonly pushed = new Map<number, string>();
  readonly promised = new Set<number>();
  readonly arrived = new Map<number, number>();
  readonly refused = new Set<number>();
  /** The last value of each property: set, promised, and at the service. */
  readonly properties = {
    set: new Map<string, number>(),
    promised: new Map<string, number>(),
    arrived: new Map<string, number>(),
  };
  counted = 0;
  isTimed = false;
  #next = 0;
  #order = new Map<string, number>();

  constructor(options: RigOptions) {
    this.rig = new QueueRig({ maxEvents: 2, ...options, isClockSet: false });
  }

  [Symbol.dispose](): void {
    this.rig[Symbol.dispose]();
  }

  run(step: Step): void {
    const { rig } = this;
    switch (step.kind) {
      case 'push':
        return this.#push(step);
      case 'deliver':
        return this.#deliver(step);
      case 'set':
        return this.#set(`property-${step.property}`);
      case 'deliver-property':
        return void this.#deliverProperty(step);
      case 'flush':
        return this.#flush();
      case 'learn-clock':
        return this.#learnClock();
      case 'disk':
        rig.failure = step.fails ? 'queue-full' : undefined;
        return;
      case 'wait':
        return rig.clock.advance(step.ms);
      case 'new-life':
      case 'corrupt':
        return this.#newLife(step);
    }
  }

  /** Everything is well again; whatever is there arrives. */
  finish(): void {
    this.rig.failure = undefined;
    this.rig.clock.advance(60_000);
    this.#learnClock();
    this.#flush();
    for (let rounds = 0; rounds < 10_000; rounds += 1) {
      const batch = this.rig.queue.take('live', 50, noStreams) ?? this.rig.queue.take('backlog', 50, noStreams);
      if (batch === undefined) break;
      this.#accept(batch, batch.points);
      this.rig.queue.release(batch);
    }
    while (this.#deliverProperty({ outcome: 'accept', late: false }));
    assert.equal(this.rig.waiting, 0);
    assert.equal(this.rig.queue.figures().properties, 0);
    this.#count();
  }

  get missing(): number[] {
    return [...this.promised].filter((value) => !this.arrived.has(value) && !this.refused.has(value));
  }

  #push({ event, class: pointClass, count, isTimed }: Extract<Step, { kind: 'push' }>): void {
    const name = `event-${event}`;
    const first = this.#next;
    const points = Array.from({ length: count }, () => {
      const time =
        isTimed && this.isTimed
          ? ({ kind: 'known', atMs: this.rig.clock.nowMs() } as const)
          : ({ kind: 'since-boot' } as const);
      return { event: name, class: pointClass, value: this.#next++, time };
    });
    try {
      this.rig.queue.push(points);
    } catch (error) {
      assert(error instanceof TelemetryError && error.code === 'too-many-names');
      return;
    }
    for (let value = first; value < this.#next; value += 1) this.pushed.set(value, name);
  }

  #set(name: string): void {
    this.rig.queue.setProperty(name, this.#next);
    this.properties.set.set(name, this.#next++);
  }

  /** Delivers the next value of a property, while a newer one may come. Returns false if none waits. */
  #deliverProperty({ outcome, late }: Pick<Extract<Step, { kind: 'deliver-property' }>, 'outcome' | 'late'>): boolean {
    const { queue } = this.rig;
    const batch = queue.take('property', 1, noStreams);
    if (batch === undefined) return false;
    const { name } = batch.stream;
    const value = Number(batch.points[0]?.text);
    if (late) this.#set(name);
    if (late) this.#flush();
    if (outcome === 'accept') {
      assert(value >= (this.properties.arrived.get(name) ?? -1), `${name} goes forward only`);
      this.properties.arrived.set(name, value);
      queue.accepted(batch, 1);
    }
    queue.release(batch);
    return true;
  }

  /** The properties whose last promised value, or a newer one, is not at the service. */
  get stale(): string[] {
    const { promised, arrived } = this.properties;
    return [...promised].filter(([name, value]) => (arrived.get(name) ?? -1) < value).map(([name]) => name);
  }

  #deliver({ lane, limit, outcome, late }: Extract<Step, { kind: 'deliver' }>): void {
    const { queue } = this.rig;
    const batch = lane === 'live' ? queue.take('live', limit, noStreams) : queue.take('backlog', limit, noStreams);
    if (batch === undefined) return;
    if (late) this.#flush();
    const [first] = batch.points;
    if (outcome === 'refuse-one' && first !== undefined) {
      queue.refused(batch, 'no');
      this.refused.add(Number(first.text));
    }
    if (outcome === 'accept') this.#accept(batch, batch.points);
    if (outcome === 'accept-half') this.#accept(batch, batch.points.slice(0, Math.ceil(limit / 2)));
    queue.release(batch);
  }

  #accept(batch: Batch, points: readonly TimedPoint[]): void {
    for (const { text, atMs } of points) {
      const value = Number(text);
      assert.equal(this.pushed.get(value), batch.stream.name);
      assert.equal(this.arrived.get(value) ?? atMs, atMs, 'a point keeps its time');
      assert(atMs > 0, 'no point goes without its time');
      this.arrived.set(value, atMs);
      this.promised.add(value);
    }
    this.#expectOrder(batch, points);
    this.rig.queue.accepted(batch, points.length);
  }

  /** Within one life of the agent, a lane of an event goes forward only. */
  #expectOrder(batch: Batch, points: readonly TimedPoint[]): void {
    const stream = `${batch.lane} ${batch.stream.name} ${batch.points[0]?.class}`;
    for (const { text } of points) {
      assert(Number(text) > (this.#order.get(stream) ?? -1), `${stream} goes forward only`);
      this.#order.set(stream, Number(text));
    }
  }

  #flush(): void {
    const dropped = Object.values(this.rig.queue.figures().dropped).reduce((sum, count) => sum + count, 0);
    if (!this.rig.queue.flush()) return;
    for (const [name, value] of this.properties.set) this.properties.promised.set(name, value);
    if (dropped > 0) return;
    for (const value of this.pushed.keys()) if (!this.#lost.has(value)) this.promised.add(value);
  }

  readonly #lost = new Set<number>();

  #newLife(step: Extract<Step, { kind: 'new-life' | 'corrupt' }>): void {
    const { rig } = this;
    if (step.how === 'restart') this.#flush();
    this.#count();
    for (const value of this.pushed.keys()) if (!this.promised.has(value)) this.#lost.add(value);
    this.#order = new Map();
    this.properties.set.clear();
    if (step.kind === 'corrupt') return rig.crash((path) => spoil(path, step.at, step.how));
    switch (step.how) {
      case 'crash':
        return rig.crash();
      case 'restart':
        return rig.restart();
      case 'reboot':
        this.isTimed = false;
        return rig.reboot();
    }
  }

  #learnClock(): void {
    this.isTimed = true;
    this.rig.isClockSet = true;
    this.rig.queue.learnClock(this.rig.clock.nowMs() - this.rig.sinceBootMs);
  }

  #count(): void {
    const { dropped } = this.rig.queue.figures();
    this.counted += Object.values(dropped).reduce((sum, count) => sum + count, 0) - dropped.refused;
  }
}

function spoil(path: string, at: number, how: 'page' | 'wal' | 'tail'): void {
  const file = how === 'wal' && existsSync(`${path}-wal`) ? `${path}-wal` : path;
  const bytes = readFileSync(file);
  if (how === 'tail') return truncateSync(file, at % Math.max(1, bytes.byteLength));
  const start = (at % Math.max(1, Math.ceil(bytes.byteLength / 512))) * 512;
  bytes.fill(0x5a, Math.min(start, bytes.byteLength), Math.min(start + 512, bytes.byteLength));
  writeFileSync(file, bytes);
}

test('acknowledged points are delivered in order, with a constant time, for any faults of disk and service', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(...plainSteps), { maxLength: 40 }), (steps) => {
      using oracle = new Oracle({ memoryPoints: 100_000 });
      for (const step of steps) oracle.run(step);
      oracle.finish();
      expect(oracle.missing).toEqual([]);
      expect(oracle.stale).toEqual([]);
      expect(oracle.counted).toBe(0);
      expect(readdirSync(oracle.rig.directory).filter((name) => name.endsWith('.damaged'))).toEqual([]);
      const times = [...oracle.arrived].map(([value, atMs]) => `${oracle.pushed.get(value)} ${atMs}`);
      expect(new Set(times).size).toBe(times.length);
    }),
    { numRuns: 25 },
  );
});

test('what the bounds cost is counted to the point', () => {
  const tight = { ...ampleBounds, maxBytes: 1_500, bulk: { maxBytes: 800, maxAgeMs: 30_000 } };
  fc.assert(
    fc.property(fc.array(fc.oneof(...plainSteps), { maxLength: 40 }), (steps) => {
      using oracle = new Oracle({ memoryPoints: 50, bounds: tight });
      for (const step of steps) oracle.run(step);
      oracle.finish();
      expect(oracle.missing.length).toBeLessThanOrEqual(oracle.counted);
    }),
    { numRuns: 25 },
  );
});

test('no damage to the file stops the agent, and later points are delivered', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(...plainSteps, corrupt, corrupt), { maxLength: 25 }), (steps) => {
      using oracle = new Oracle({ configuredEvents: new Set(['event-1']) });
      for (const step of steps) oracle.run(step);
      oracle.rig.failure = undefined;
      oracle.rig.clock.advance(60_000);
      oracle.rig.queue.flush();
      const before = new Set(oracle.arrived.keys());
      oracle.run({ kind: 'push', event: 1, class: 'normal', count: 5, isTimed: false });
      oracle.finish();
      const after = [...oracle.arrived.keys()].filter((value) => !before.has(value));
      expect(after).toEqual(expect.arrayContaining([...oracle.pushed.keys()].slice(-5)));
    }),
    { numRuns: 25 },
  );
});
