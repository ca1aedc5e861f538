import { loadConfig } from '../../../src/config/load-config.ts';
import { Daemon } from '../../../src/daemon/cycles/run-daemon.ts';
import type { Log, LogFields } from '../../../src/system/log/log.ts';
import type { ServiceManager } from '../../../src/system/processes/systemd-notify.ts';
import { seededRandom } from '../../fakes/machine/power.ts';
import { growthOf, longestLife, measure } from './measure.ts';
import type { Growth, Sample } from './measure.ts';
import { Scenario } from './scenario.ts';
import { SoakService } from './service.ts';
import { SoakGateway } from './soak-gateway.ts';
import { VirtualTime } from './virtual-time.ts';

export interface SoakOptions {
  readonly weeks: number;
  readonly seed: number;
  readonly onSample?: (sample: Sample) => void;
}

export interface SoakReport {
  readonly weeks: number;
  readonly seed: number;
  /** Number of events by name; `outcome …` are results of cycles and operations. */
  readonly counts: Readonly<Record<string, number>>;
  readonly samples: readonly Sample[];
  readonly growth: readonly Growth[];
  /** Growth in the longest run of a daemon. */
  readonly growthOfALife: readonly Growth[];
}

const HOUR_MS = 3_600_000;
/** Samples of a week, and of less than one. */
const LEAST_SAMPLES = 28;
/** Interval between possible events. */
const OCCASION_MS = 5 * 60_000;
/** Every other half of a week, or of less than one, is quiet, so that a daemon lives for long. */
const HALF_WEEK_HOURS = 84;
const START_MS = Date.UTC(2027, 0, 1);
const weeksAreOver = new Error('the weeks are over');

/** Weeks of a gateway's life in one process: the real daemon with its real rooms, on small files and a quick clock. */
export async function runSoak({ weeks, seed, onSample }: SoakOptions): Promise<SoakReport> {
  const halfHours = Math.min(weeks * HALF_WEEK_HOURS, HALF_WEEK_HOURS);
  const sampleHours = (2 * halfHours) / LEAST_SAMPLES;
  await using service = await SoakService.start();
  await using gateway = await SoakGateway.create(service);
  const random = seededRandom(seed);
  const scenario = new Scenario(service, gateway, random);
  const samples: Sample[] = [];
  using time = new VirtualTime(START_MS);
  const over = new AbortController();
  let life = new AbortController();
  let lives = 0;
  const end = (reason: unknown): void => {
    over.abort(reason);
    life.abort(reason);
  };
  const measureNowAndThen = async (): Promise<void> => {
    for (let hour = 0; hour < weeks * 7 * 24; hour += sampleHours) {
      await time.sleep(sampleHours * HOUR_MS, over.signal);
      const sample = measure(hour / 24, lives, life.signal);
      samples.push(sample);
      onSample?.(sample);
    }
    end(weeksAreOver);
  };
  const letThingsHappen = async (): Promise<void> => {
    for (;;) {
      await time.sleep(OCCASION_MS, over.signal);
      await scenario.happen(Math.floor(time.monotonicMs() / (halfHours * HOUR_MS)) % 2 === 1);
    }
  };
  const beside = [measureNowAndThen(), letThingsHappen()].map((loop) => loop.catch(end));
  const log = countingLog(scenario, () => life.abort(new Error('the machine reboots')));
  const parts = { gateway, time, random, log, scenario };
  for (; !over.signal.aborted; life = new AbortController()) {
    scenario.count(`boot of slot ${await gateway.start()}`);
    lives += 1;
    await live(parts, life);
  }
  await Promise.all(beside);
  if (over.signal.reason !== weeksAreOver) throw over.signal.reason;
  const growth = { growth: growthOf(samples), growthOfALife: growthOf(longestLife(samples)) };
  return { weeks, seed, counts: sorted(scenario.counts), samples, ...growth };
}

interface LifeParts {
  readonly gateway: SoakGateway;
  readonly time: VirtualTime;
  readonly random: () => number;
  readonly log: Log;
  readonly scenario: Scenario;
}

/** Runs a daemon until it ends. */
async function live({ gateway, time, random, log, scenario }: LifeParts, life: AbortController): Promise<void> {
  let hangUp = (): void => {};
  const { configFile, boot } = gateway;
  await gateway.configure();
  const loaded = await loadConfig(configFile, {});
  scenario.daemon = { hangUp: () => hangUp(), restart: () => life.abort(new Error('SIGTERM')) };
  try {
    const options = {
      loaded,
      reload: async () => loadConfig(configFile, {}),
      world: {
        environment: {},
        clock: time,
        random,
        log,
        agentVersion: 'soak',
        boot,
      },
      manager: patientManager,
      onReload: (listener: () => void) => {
        hangUp = listener;
        return { [Symbol.dispose]: () => void (hangUp = () => {}) };
      },
    };
    await new Daemon(options, life.signal).run();
  } catch (error) {
    if (!life.signal.aborted) throw error;
  } finally {
    scenario.daemon = undefined;
  }
}

/** Counts outcomes and failures; a reboot ends the daemon's life, as systemd would. */
function countingLog(scenario: Scenario, onReboot: () => void): Log {
  const note = ({ outcome, code }: LogFields): void => {
    if (code !== undefined) scenario.count(`said ${code}`);
    if (outcome === undefined) return;
    scenario.count(`outcome ${outcome}`);
    if (outcome === 'rebooting') onReboot();
  };
  return { debug: () => {}, info: note, warn: note, error: note };
}

const patientManager: ServiceManager = {
  watchdogMs: 60_000,
  ready: () => {},
  reloading: () => {},
  stopping: () => {},
  status: () => {},
  watchdog: () => {},
  [Symbol.asyncDispose]: async () => {},
};

function sorted(counts: ReadonlyMap<string, number>): Readonly<Record<string, number>> {
  return Object.fromEntries([...counts].toSorted(([a], [b]) => a.localeCompare(b)));
}
