import { silentLog } from '../../../../src/system/log/log.ts';
import { Measurement } from '../../../../src/telemetry/measurement.ts';
import type { MeasurementSettings, ReductionSettings } from '../../../../src/telemetry/settings.ts';
import { SourceRunner } from '../../../../src/telemetry/source-runner.ts';
import { parseReading } from '../../../../src/telemetry/sources/parse-reading.ts';
import type { ReadingSink, Source } from '../../../../src/telemetry/sources/source.ts';
import { ManualClock } from '../../../fakes/clock.ts';

export const forever = new AbortController().signal;
export const MINUTE_MS = 60_000;

export const asItIs: ReductionSettings = {
  scale: undefined,
  offset: undefined,
  deadband: undefined,
  heartbeatMs: undefined,
  over: undefined,
};

export const output = (pointer: string, reduction = asItIs): MeasurementSettings['outputs'][number] => ({
  to: { kind: 'event', event: pointer, class: 'normal' },
  pointer,
  reduction,
});

/** A source with its outputs, as telemetry joins them. */
export function sensor(
  source: Source,
  settings: Partial<Pick<MeasurementSettings, 'outputs' | 'ignore' | 'everyMs' | 'timeoutMs'>> = {},
) {
  const clock = new ManualClock();
  const sent: unknown[] = [];
  const measurement = new Measurement({ outputs: [output('')], ignore: [], ...settings });
  const rate = { pointsPerSecond: 1_000, bytesPerSecond: 100_000 };
  const runner = new SourceRunner({
    name: 'probe',
    rate,
    source,
    everyMs: 1_000,
    timeoutMs: 1_000,
    ...settings,
    clock,
    random: () => 0,
    log: silentLog,
    onReading: (reading, onDrop) =>
      measurement.push(reading, clock.monotonicMs(), (_, value) => void sent.push(value), onDrop),
  });
  return { runner, clock, sent };
}

/** A program that prints these texts, one at each interval. */
export function prints(...texts: readonly string[]): Source {
  const left = [...texts];
  return { kind: 'polled', read: async () => parseReading(left.shift() ?? texts.at(-1) ?? '') };
}

/** A push source that sends when the test does. */
export function speaks(): {
  readonly source: Source;
  readonly say: (what: (intake: ReadingSink) => void) => Promise<void>;
  fail: (why: Error) => Promise<void>;
} {
  let heard: ReadingSink | undefined;
  let end = Promise.withResolvers<never>();
  const run = async (intake: ReadingSink): Promise<void> => {
    heard = intake;
    end = Promise.withResolvers<never>();
    await end.promise;
  };
  const turn = async (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));
  return {
    source: { kind: 'pushed', run },
    say: async (what) => {
      await turn();
      if (heard !== undefined) what(heard);
    },
    fail: async (why) => {
      await turn();
      end.reject(why);
      await turn();
    },
  };
}
