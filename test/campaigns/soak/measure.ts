import { getEventListeners } from 'node:events';
import { readdirSync } from 'node:fs';
import process from 'node:process';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Resources that must not grow. */
export interface Sample {
  readonly day: number;
  /** Number of the daemon's run. */
  readonly life: number;
  readonly heapKib: number;
  /** Outside of V8's heap: buffers. */
  readonly externalKib: number;
  /** Open files and sockets. */
  readonly descriptors: number;
  /** Running timers. */
  readonly timers: number;
  /** Everything that keeps the event loop alive. */
  readonly resources: number;
  /** Listeners of the process and of the daemon's signal. */
  readonly listeners: number;
}

export type Figure = Exclude<keyof Sample, 'day' | 'life'>;
export const figures: readonly Figure[] = ['heapKib', 'externalKib', 'descriptors', 'timers', 'resources', 'listeners'];

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

export function measure(day: number, life: number, signal: AbortSignal): Sample {
  // Twice: what the first run finalizes, the second one frees.
  collectGarbage();
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  const resources = process.getActiveResourcesInfo();
  return {
    day,
    life,
    heapKib: Math.round(heapUsed / 1024),
    externalKib: Math.round(external / 1024),
    descriptors: readdirSync('/proc/self/fd').length,
    timers: resources.filter((name) => name === 'Timeout').length,
    resources: resources.length,
    listeners: listenersOf(process) + getEventListeners(signal, 'abort').length,
  };
}

function listenersOf(emitter: NodeJS.EventEmitter): number {
  return emitter.eventNames().reduce((sum, name) => sum + emitter.listenerCount(name), 0);
}

export interface Growth {
  readonly figure: Figure;
  /** Medians of the second and the last quarter of the time; the first one warms up. */
  readonly early: number;
  readonly late: number;
}

export function growthOf(samples: readonly Sample[]): readonly Growth[] {
  const quarter = Math.floor(samples.length / 4);
  const windows = { early: samples.slice(quarter, 2 * quarter), late: samples.slice(-quarter) };
  return figures.map((figure) => ({
    figure,
    early: median(windows.early.map((sample) => sample[figure])),
    late: median(windows.late.map((sample) => sample[figure])),
  }));
}

/** The samples of the daemon that ran for the longest time. */
export function longestLife(samples: readonly Sample[]): readonly Sample[] {
  const lives = Map.groupBy(samples, ({ life }) => life).values();
  return [...lives].reduce((longest, other) => (other.length > longest.length ? other : longest), []);
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
