import { cronTimes } from '../../../src/system/time/cron.ts';
import type { NextTime } from '../../../src/system/time/cron.ts';
import { downService, limitedService, maintainedService, slowService, wellService } from './services.ts';
import type { Service } from './services.ts';

export interface Scenario {
  readonly name: string;
  readonly what: string;
  readonly things: number;
  readonly cron: NextTime;
  readonly intervalMs: number;
  readonly splayMs: number;
  readonly service: Service;
  readonly events: readonly FleetEvent[];
  /** From then on the service names a new version. */
  readonly releaseAtMs: number;
  readonly imageBytes: number;
  /** Rate of a shared connection. By default, each thing has its own. */
  readonly lineBytesPerSecond: number | undefined;
  readonly endMs: number;
  /** Minutes from this time on are checked: their p99.9 may be this multiple of the mean. */
  readonly judgedFromMs: number;
  readonly mostTimesMean: number | undefined;
}

export type FleetEvent =
  | { readonly kind: 'power-cut'; readonly atMs: number; readonly offMs: number }
  | { readonly kind: 'clock-set'; readonly atMs: number; readonly byMs: number };

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const hour = { fromMs: HOUR_MS, toMs: 2 * HOUR_MS };

/** The agent's defaults (`update/settings.ts`). */
export interface Defaults {
  readonly schedule: string;
  readonly splayMs: number;
}

export function scenarios(things: number, defaults: Defaults): readonly Scenario[] {
  const intervalMs = 15 * MINUTE_MS;
  const perSecond = (things / intervalMs) * 1000;
  const usual = {
    things,
    cron: cronTimes(defaults.schedule),
    intervalMs,
    splayMs: defaults.splayMs,
    service: wellService(),
    events: [],
    releaseAtMs: Number.POSITIVE_INFINITY,
    imageBytes: 60_000_000,
    lineBytesPerSecond: undefined,
    endMs: 4 * HOUR_MS,
    judgedFromMs: 0,
    mostTimesMean: 1.2,
  };
  const after = { judgedFromMs: hour.toMs, mostTimesMean: 1.5 };
  const released = { releaseAtMs: HOUR_MS, judgedFromMs: HOUR_MS, mostTimesMean: undefined };
  return [
    { ...usual, name: 'well', what: 'the service is well' },
    { ...usual, name: 'release', what: 'the service names a new version', ...released },
    { ...usual, name: 'slow', what: 'each answer takes 20 s, for an hour', service: slowService(hour, 20_000) },
    { ...usual, ...after, name: 'down', what: 'nothing answers for an hour', service: downService(hour) },
    {
      ...usual,
      ...after,
      name: 'maintained',
      what: 'an hour of 503 with one `Retry-After` for all',
      service: maintainedService(hour),
    },
    {
      ...usual,
      ...released,
      name: 'limited',
      what: 'a new version, and a limit of 1.5 × the mean (429)',
      service: limitedService(Math.ceil(perSecond * 1.5)),
    },
    {
      ...usual,
      ...after,
      name: 'power',
      what: 'all lose their power for 20 minutes',
      events: [{ kind: 'power-cut', atMs: 100 * MINUTE_MS, offMs: 20 * MINUTE_MS }],
    },
    {
      ...usual,
      name: 'clock',
      what: 'all clocks are set forward by 70 minutes',
      events: [{ kind: 'clock-set', atMs: HOUR_MS + 4 * MINUTE_MS, byMs: 70 * MINUTE_MS }],
    },
    {
      ...usual,
      name: 'hourly',
      what: 'each hour at minute 0, with a `splay` of an hour',
      cron: cronTimes('0 * * * *'),
      intervalMs: HOUR_MS,
      splayMs: HOUR_MS,
      endMs: 8 * HOUR_MS,
    },
    {
      ...usual,
      ...released,
      name: 'site',
      what: '500 behind one line of 100 Mbit/s, and a new version',
      things: 500,
      lineBytesPerSecond: 12_500_000,
    },
  ];
}
