import { join } from 'node:path';

import type { SensorReport, TelemetryStatus } from '../control/telemetry-protocol.ts';
import { describeError } from '../system/errors.ts';
import type { Log } from '../system/log/log.ts';
import type { Clock } from '../system/time/clock.ts';
import { WallClock } from './clock/clock.ts';
import type { ProbeSynchronization, ServiceTime } from './clock/clock.ts';
import { parseTime } from './clock/parse-time.ts';
import type { AcknowledgedBy } from './delivery/acknowledgement.ts';
import { Delivery } from './delivery/delivery.ts';
import { TelemetryError } from './errors.ts';
import type { OnDrop } from './measurement.ts';
import type { NewPoint, PointClass, PointTime } from './point.ts';
import type { OpenSerialLine, ValueService } from './ports.ts';
import { DatapointQueue } from './queue/queue.ts';
import type { BootTime } from './queue/queue.ts';
import { SelfReport } from './self-report.ts';
import type { SelfFacts } from './self-report.ts';
import { sensorReport } from './sensors/sensor-report.ts';
import { trySource } from './sensors/try-sensor.ts';
import type {
  MeasurementSettings,
  OutputSettings,
  SourceSettings,
  TelemetrySettings,
  WatchSettings,
} from './settings.ts';
import { SourceRunner } from './source-runner.ts';
import { SourceSeries } from './source-series.ts';
import type { SourceSeriesDeps } from './source-series.ts';
import { SourceMaker } from './sources/create-source.ts';
import type { Reading } from './sources/source.ts';
import { Watch } from './watch.ts';

export interface TelemetryDeps {
  readonly settings: TelemetrySettings;
  readonly measurements: readonly MeasurementSettings[];
  readonly watches: readonly WatchSettings[];
  /** The directory of the queue's file. */
  readonly stateDirectory: string;
  readonly service: ValueService;
  readonly clock: Clock;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  readonly log: Log;
  readonly boot: BootTime;
  readonly probe: ProbeSynchronization;
  readonly openLine: OpenSerialLine;
  /** While this is true the backlog waits, since an update has the line. */
  readonly isLineTaken: () => boolean;
  /** Returns the values that the agent publishes about itself. */
  readonly facts: () => SelfFacts;
}

export interface LocalPoint {
  readonly event: string;
  readonly value: unknown;
  /** ISO 8601. Omitted for now. */
  readonly at?: string | undefined;
  readonly class?: PointClass | undefined;
}

const MAX_DEAD_LETTERS = 1_000;
const PAUSE_AFTER_BUG_MS = 5_000;

/**
 * Guarantee `datapoints`: everything between a sensor and the service. It begins when it is made, and ends when it is
 * disposed.
 */
export class Telemetry implements AsyncDisposable {
  readonly #deps: TelemetryDeps;
  readonly #queue: DatapointQueue;
  readonly #delivery: Delivery;
  readonly #wallClock: WallClock;
  readonly #maker: SourceMaker;
  readonly #series: SourceSeries[] = [];
  readonly #sources: readonly SourceRunner[];
  readonly #watches: readonly Watch[];
  readonly #stop = new AbortController();
  readonly #running: Promise<unknown>;

  constructor(deps: TelemetryDeps) {
    const { settings, watches, boot } = deps;
    this.#deps = deps;
    this.#queue = openQueue(deps);
    this.#delivery = new Delivery({
      ...deps,
      ...settings,
      queue: this.#queue,
    });
    this.#wallClock = new WallClock({
      ...deps,
      sinceBootMs: boot.sinceBootMs,
      requestTime: async (signal) => this.#waiting() > 0 && deps.service.requestTime(signal),
      onSet: (startedAtMs) => this.#queue.learnClock(startedAtMs),
    });
    this.#maker = new SourceMaker({
      ...deps,
      diskPath: deps.stateDirectory,
      agentFigures: () => this.#agentFigures(),
    });
    this.#sources = this.#makeSources();
    this.#watches = watches.map((watch) => new Watch({ ...deps, watch }));
    this.#running = this.#run();
  }

  /** Ends everything, and writes what is in memory. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new Error('telemetry ends'));
    await this.#running;
    for (const series of this.#series) series.end();
    this.#maker[Symbol.dispose]();
    this.#queue[Symbol.dispose]();
  }

  /** Takes all points or none. Resolves when they are durable or delivered. Throws TelemetryError. */
  async sendDatapoints(points: readonly LocalPoint[], signal: AbortSignal): Promise<AcknowledgedBy> {
    return this.#queue.acknowledged(
      this.#queue.push(
        points.map((point) => this.#newPoint(point)),
        'program',
      ),
      signal,
    );
  }

  /** Resolves when the value is durable or delivered. Throws TelemetryError. */
  async setProperty(id: string, value: unknown, signal: AbortSignal): Promise<AcknowledgedBy> {
    return this.#queue.acknowledged(this.#queue.setProperty(id, value), signal);
  }

  /** Notes the time of the service's clock. */
  hear(time: ServiceTime): void {
    this.#wallClock.onServiceTime(time);
  }

  /** The gateway may be a new thing: immediately retries the values that the service rejected from the old one. */
  tryAgain(): void {
    this.#delivery.tryAgain();
  }

  /** Writes what is in memory; returns whether it is on disk now. */
  flush(): boolean {
    return this.#queue.flush();
  }

  status(): TelemetryStatus {
    return {
      spool: this.#queue.figures(),
      delivery: this.#delivery.figures(),
      clock: this.#wallClock.state,
      sources: this.#sources.map(({ figures }) => figures),
      watches: this.#watches.map(({ figures }) => figures),
      deadLetters: this.#queue.deadLetters(10).map(({ event, atMs, text, reason }) => {
        const at = new Date(atMs).toISOString();
        return { event, at, value: text.slice(0, 200), reason };
      }),
    };
  }

  /** The reports of all sources. */
  sensors(): readonly SensorReport[] {
    return this.#deps.measurements.map((settings, index) => sensorReport(settings, this.#sources[index]?.details));
  }

  /** Reads one source once, besides its own interval. Throws AgentError. */
  async trySensor(name: string, signal: AbortSignal): Promise<Reading> {
    const index = this.#deps.measurements.findIndex((settings) => settings.name === name);
    const [settings, runner] = [this.#deps.measurements[index], this.#sources[index]];
    if (settings === undefined || runner === undefined) {
      throw new TelemetryError('source-unavailable', `there is no source ${name}: the configuration has changed`);
    }
    return trySource(runner.source, settings, signal);
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const { settings, facts, clock } = this.#deps;
    const report = new SelfReport({
      settings: settings.report,
      facts,
      figures: () => this.#agentFigures(),
      publish: (id, value) => void this.#queue.setProperty(id, value),
      clock,
    });
    const readers = [...this.#sources, ...this.#series, ...this.#watches];
    const loops = [this.#wallClock, this.#queue, this.#delivery, report, ...readers];
    await Promise.all(loops.map(async (loop) => this.#guard(async () => loop.run(signal))));
  }

  /** Runs a loop until the signal is aborted. A defect in one loop is logged and does not end the others. */
  async #guard(run: () => Promise<void>): Promise<void> {
    const { log, clock } = this.#deps;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        await run();
        return;
      } catch (error) {
        if (signal.aborted) return;
        log.error({ error: describeError(error) }, 'a part of telemetry failed and is begun again');
        await clock.sleep(PAUSE_AFTER_BUG_MS, signal).catch(() => {}); // the loop checks the signal
      }
    }
  }

  #makeSources(): readonly SourceRunner[] {
    const { measurements, settings: telemetry, clock } = this.#deps;
    const { sourcePointsPerSecond: pointsPerSecond, sourceBytesPerSecondBytes: bytesPerSecond } = telemetry;
    return measurements.map((settings) => {
      const onDrop: OnDrop = (reason, why) => runner.drop(reason, why);
      const onValue: SourceSeriesDeps['onValue'] = (to, value, series) => this.#keep(to, value, onDrop, series);
      const ofSource = new SourceSeries(settings, { clock, onValue, onDrop });
      this.#series.push(ofSource);
      const runner: SourceRunner = new SourceRunner({
        ...this.#deps,
        ...settings,
        rate: { pointsPerSecond, bytesPerSecond },
        idleTimeoutMs: silenceOf(settings.source),
        source: this.#maker.make(settings),
        onReading: (reading, _, series) => ofSource.push(reading, series),
      });
      return runner;
    });
  }

  #keep(to: OutputSettings['to'], value: unknown, onDrop: OnDrop, series: string): void {
    const named = (name: string): string => name.replaceAll('{topic}', () => series);
    try {
      if (to.kind === 'property') this.#queue.setProperty(named(to.id), value);
      else this.#queue.push([{ event: named(to.event), class: to.class, value, time: this.#wallClock.now() }]);
    } catch (error) {
      onDrop('unusable', describeError(error)); // the other outputs get their values
    }
  }

  #newPoint({ event, value, at, class: pointClass = 'normal' }: LocalPoint): NewPoint {
    const time: PointTime = at === undefined ? this.#wallClock.now() : { kind: 'given', atMs: parseTime(at) };
    return { event, value, class: pointClass, time };
  }

  #waiting(): number {
    const { pointsInMemory, pointsOnDisk } = this.#queue.figures();
    return pointsInMemory + pointsOnDisk;
  }

  #agentFigures(): Readonly<Record<string, unknown>> {
    const { dropped, flashBytesPerDay } = this.#queue.figures();
    const { delivered, failedRequests } = this.#delivery.figures();
    return {
      waiting: this.#waiting(),
      delivered,
      failedRequests,
      dropped: Object.values(dropped).reduce((sum, count) => sum + count, 0),
      droppedBecause: dropped,
      flashBytesPerDay,
      clock: this.#wallClock.state,
      failingSources: this.#sources.filter(({ figures }) => figures.failingForMs !== undefined).length,
    };
  }
}

/**
 * The silence that a source is allowed. A serial line checks its own, since it counts bytes, not all of which are
 * readings.
 */
function silenceOf(source: SourceSettings): number | undefined {
  return source.kind === 'exec' || source.kind === 'mqtt' ? source.idleTimeoutMs : undefined;
}

function openQueue({ settings, measurements, stateDirectory, clock, boot, log }: TelemetryDeps): DatapointQueue {
  const outputs = measurements.flatMap((measurement) => measurement.outputs);
  const configuredEvents = new Set(outputs.flatMap(({ to }) => (to.kind === 'event' ? [to.event] : [])));
  const path = join(stateDirectory, 'queue.db');
  return new DatapointQueue({
    ...settings,
    bounds: settings,
    path,
    maxDeadLetters: MAX_DEAD_LETTERS,
    configuredEvents,
    clock,
    boot,
    log,
  });
}
