import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { silentLog } from '../../../src/system/log/log.ts';
import { systemClock } from '../../../src/system/time/clock.ts';
import type { MeasurementSettings, SourceSettings } from '../../../src/telemetry/settings.ts';
import { Telemetry } from '../../../src/telemetry/telemetry.ts';
import type { TelemetryDeps } from '../../../src/telemetry/telemetry.ts';
import { FakeValues } from './fake-values.ts';
import { ampleBounds } from './queue/queue-rig.ts';

export const deadline = (): AbortSignal => AbortSignal.timeout(60_000);
export const noReduction = {
  scale: undefined,
  offset: undefined,
  deadband: undefined,
  heartbeatMs: undefined,
  over: undefined,
};

export function measurement(
  event: string,
  source: SourceSettings,
  everyMs = 100,
  timeoutMs = 60_000,
): MeasurementSettings {
  const to = { kind: 'event', event, class: 'normal' } as const;
  return {
    name: event,
    everyMs,
    timeoutMs,
    source,
    ignore: [],
    outputs: [{ to, pointer: '', reduction: noReduction }],
  };
}

/** Telemetry with a service of the test, in a directory that it removes. */
export class Rig implements AsyncDisposable {
  readonly directory = mkdtempSync(join(tmpdir(), 'telemetry-'));
  readonly service = new FakeValues();
  telemetry: Telemetry;
  readonly #options: Partial<TelemetryDeps>;

  constructor(options: Partial<TelemetryDeps> = {}) {
    this.#options = options;
    this.telemetry = this.#start();
  }

  async restart(): Promise<void> {
    await this.telemetry[Symbol.asyncDispose]();
    this.telemetry = this.#start();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.telemetry[Symbol.asyncDispose]();
    rmSync(this.directory, { recursive: true });
  }

  #start(): Telemetry {
    const ids = { installed: 'installed', slot: undefined, outcome: undefined, reason: undefined };
    return new Telemetry({
      settings: {
        writeIntervalMs: 10_000,
        writePoints: 500,
        memoryPoints: 10_000,
        ...ampleBounds,
        minFreeBytes: 0,
        flashBytesPerDay: Number.POSITIVE_INFINITY,
        batchPoints: 500,
        gatherMs: 10,
        backlogPointsPerSecond: 100_000,
        sourcePointsPerSecond: 1_000,
        sourceBytesPerSecondBytes: 1_000_000,
        report: { everyMs: 60_000, ...ids, uptime: 'uptime', figures: 'figures' },
      },
      measurements: [],
      watches: [],
      stateDirectory: this.directory,
      service: this.service,
      clock: systemClock,
      random: () => 0,
      log: silentLog,
      boot: { name: 'boot', sinceBootMs: () => performance.now() },
      probe: async () => 'synchronized',
      openLine: async () => {
        throw new Error('there is no serial line here');
      },
      isLineTaken: () => false,
      facts: () => ({ installed: '1.2.3', slot: undefined, outcome: undefined, reason: undefined, uptime: 77 }),
      ...this.#options,
    });
  }
}

export async function until(condition: () => boolean): Promise<void> {
  const signal = deadline();
  while (!condition()) await systemClock.sleep(10, signal);
}
