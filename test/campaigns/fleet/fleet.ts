import { SleepIntervals, splayOffsetMs, offsetSchedule, splayedStartMs } from '../../../src/daemon/cycles/schedule.ts';
import { Scheduler } from '../../../src/daemon/cycles/scheduler.ts';
import { callPauseMs } from '../../../src/service/session.ts';
import type { NextTime } from '../../../src/system/time/cron.ts';
import { CalendarQueue } from './calendar-queue.ts';
import { Counts } from './counts.ts';
import type { Scenario } from './scenarios.ts';

const MINUTE_MS = 60_000;
/** A Monday, 00:00 UTC. */
const START_MS = Date.UTC(2027, 0, 4);

/** Around the start. */

/** A thing's next step. */
const steps = { target: 0, firmware: 1, reboot: 2, tell: 3, tellFirst: 4, off: 5 } as const;
type Step = (typeof steps)[keyof typeof steps];

/** A fleet: each thing has an agenda of its own; what it does next is one entry of the queue. */
export class Fleet {
  readonly counts: Counts;
  readonly #scenario: Scenario;
  readonly #random: () => number;
  readonly #queue: CalendarQueue;
  readonly #agendas: Scheduler[] = [];
  readonly #step: Uint8Array;
  readonly #tries: Uint8Array;
  readonly #version: Uint8Array;
  /** The new version runs, and the service does not know it yet. */
  readonly #isUntold: Uint8Array;
  /** A check is in progress. */
  readonly #isLooking: Uint8Array;
  /** Its sleep ends with the scheduler's next task, not immediately. */
  readonly #isAsleep: Uint8Array;
  readonly #offsetsMs: Float64Array;
  readonly #sleptFromMs: Float64Array;
  readonly #times: NextTime;
  #nowMs = 0;
  #setMs = 0;
  /** The current thing. */
  #thing = 0;
  /** Downloads that share the site's line. */
  #lineBusyUntilMs = 0;

  constructor(scenario: Scenario, random: () => number) {
    const { things, splayMs, endMs } = scenario;
    this.#scenario = scenario;
    this.#random = random;
    this.#queue = new CalendarQueue(things, endMs);
    this.#step = new Uint8Array(things);
    this.#tries = new Uint8Array(things);
    this.#version = new Uint8Array(things);
    this.#isUntold = new Uint8Array(things);
    this.#isLooking = new Uint8Array(things);
    this.#isAsleep = new Uint8Array(things);
    this.#sleptFromMs = new Float64Array(things);
    this.#offsetsMs = Float64Array.from({ length: things }, (_, thing) => splayOffsetMs(serialNumber(thing), splayMs));
    this.#times = scenarioTimes(scenario.cron);
    this.counts = new Counts(scenario);
    for (let thing = 0; thing < things; thing += 1) this.#begin(thing);
  }

  run(): Counts {
    const { events, endMs } = this.#scenario;
    let fromMs = 0;
    for (const event of [...events].sort((a, b) => a.atMs - b.atMs)) {
      this.#queue.runUntil(fromMs, event.atMs, this.#handle);
      fromMs = event.atMs;
      this.#nowMs = fromMs;
      if (event.kind === 'power-cut') this.#cutPower(event.offMs);
      else this.#setClocks(event.byMs);
    }
    this.#queue.runUntil(fromMs, endMs, this.#handle);
    return this.counts;
  }

  get #wallMs(): number {
    return START_MS + this.#nowMs + this.#setMs;
  }

  #newAgenda(): Scheduler {
    const { splayMs } = this.#scenario;
    const schedule = (nowMs: number): number => offsetSchedule(this.#times, this.#offsetsMs[this.#thing] ?? 0)(nowMs);
    const turn = (nowMs: number): number =>
      splayedStartMs(nowMs, schedule, { serialNumber: serialNumber(this.#thing), splayMs });
    return new Scheduler(turn(this.#wallMs), { schedule, turn, wakeLimitMs: splayMs });
  }

  /** It has been in operation for long. */
  #begin(thing: number): void {
    this.#thing = thing;
    const agenda = this.#newAgenda();
    this.#agendas[thing] = agenda;
    agenda.beginRound(this.#wallMs);
    agenda.endRound('looked', this.#wallMs);
    this.#sleep(thing);
  }

  #agenda(thing: number): Scheduler {
    const agenda = this.#agendas[thing];
    if (agenda === undefined) throw new Error(`thing ${thing} has no agenda`);
    return agenda;
  }

  readonly #handle = (thing: number, nowMs: number): void => {
    this.#nowMs = nowMs;
    this.#thing = thing;
    const step = this.#step[thing];
    if (step === steps.target) this.#look(thing);
    else if (step === steps.off) this.#start(thing);
    else if (step === steps.reboot) this.#startNew(thing);
    else this.#ask(thing);
  };

  /** The daemon starts: it settles, which needs the service only where there is something to tell, and looks then. */
  #start(thing: number): void {
    this.counts.start(thing);
    this.#agendas[thing] = this.#newAgenda();
    this.#agenda(thing).beginRound(this.#wallMs);
    if (this.#isUntold[thing] === 1) this.#go(thing, steps.tell, this.#nowMs);
    else this.#rest(thing, 'settled');
  }

  #startNew(thing: number): void {
    this.#version[thing] = 1;
    this.#isUntold[thing] = 1;
    this.counts.updated(this.#nowMs);
    this.#start(thing);
  }

  #ask(thing: number): void {
    const step = this.#step[thing];
    const tries = (this.#tries[thing] ?? 0) + 1;
    this.#tries[thing] = tries;
    const { latencyMs, error } = this.#scenario.service(this.#nowMs);
    this.counts.request(this.#nowMs, error === undefined, tries);
    if (error === undefined) {
      this.#answered(thing, latencyMs);
      return;
    }
    const pauseMs = callPauseMs(error, tries, this.#random);
    if (pauseMs !== undefined) {
      this.#queue.add(thing, this.#nowMs + latencyMs + pauseMs);
      return;
    }
    this.#nowMs += latencyMs;
    // an undelivered report waits for the next cycle
    if (step === steps.tell) this.#rest(thing, 'settled');
    else if (step === steps.tellFirst) this.#go(thing, steps.target, this.#nowMs, true);
    else this.#rest(thing, 'failed');
  }

  /** Sends pending reports, then checks. */
  #look(thing: number): void {
    if (this.#isLooking[thing] === 1) {
      this.#ask(thing);
      return;
    }
    const agenda = this.#agenda(thing);
    if (this.#isAsleep[thing] === 1 && !agenda.wakeUp(this.#wallMs)) {
      this.#sleep(thing);
      return;
    }
    this.counts.look(thing);
    agenda.beginRound(this.#wallMs);
    this.#isLooking[thing] = 1;
    if (this.#isUntold[thing] === 1) this.#go(thing, steps.tellFirst, this.#nowMs, true);
    else this.#ask(thing);
  }

  #answered(thing: number, latencyMs: number): void {
    const { releaseAtMs } = this.#scenario;
    const step = this.#step[thing];
    this.#nowMs += latencyMs;
    if (step === steps.tell || step === steps.tellFirst) this.#isUntold[thing] = 0;
    if (step === steps.tell) {
      this.#rest(thing, 'settled');
    } else if (step === steps.tellFirst) {
      this.#go(thing, steps.target, this.#nowMs, true);
    } else if (step === steps.firmware) {
      this.#download(thing);
    } else if (this.#version[thing] === 0 && this.#nowMs >= releaseAtMs) {
      this.#go(thing, steps.firmware, this.#nowMs, true);
    } else {
      this.#rest(thing, 'looked');
    }
  }

  /**
   * Downloads over its own connection (2 to 20 Mbit/s), or over the site's, which serves one after another at full
   * speed.
   */
  #download(thing: number): void {
    const { imageBytes, lineBytesPerSecond } = this.#scenario;
    this.counts.transferred(imageBytes);
    const installedMs = MINUTE_MS * (0.5 + this.#random());
    if (lineBytesPerSecond === undefined) {
      const bytesPerSecond = 250_000 * 10 ** this.#random();
      this.#go(thing, steps.reboot, this.#nowMs + (imageBytes / bytesPerSecond) * 1000 + installedMs);
      return;
    }
    const beganMs = Math.max(this.#nowMs, this.#lineBusyUntilMs);
    this.#lineBusyUntilMs = beganMs + (imageBytes / lineBytesPerSecond) * 1000;
    this.#go(thing, steps.reboot, this.#lineBusyUntilMs + installedMs);
  }

  #go(thing: number, step: Step, atMs: number, isLooking = false): void {
    this.#step[thing] = step;
    this.#isLooking[thing] = isLooking ? 1 : 0;
    this.#tries[thing] = 0;
    this.#queue.add(thing, atMs);
  }

  #rest(thing: number, how: 'settled' | 'looked' | 'failed'): void {
    this.#agenda(thing).endRound(how, this.#wallMs);
    this.#sleep(thing);
  }

  #sleep(thing: number): void {
    this.#sleptFromMs[thing] = this.#nowMs;
    const leftMs = Math.max(0, this.#agenda(thing).next.atMs - this.#wallMs);
    this.#go(thing, steps.target, this.#nowMs + leftMs);
    this.#isAsleep[thing] = leftMs > 0 ? 1 : 0;
  }

  /**
   * Interrupts the power of all things. It returns for all together, and each takes time to start. Partial downloads
   * start again.
   */
  #cutPower(offMs: number): void {
    const { things } = this.#scenario;
    const cutMs = this.#nowMs;
    this.#queue.clear();
    for (let thing = 0; thing < things; thing += 1) {
      this.#go(thing, steps.off, cutMs + offMs + 20_000 + this.#random() * 20_000);
    }
  }

  /** Sets the clocks of all things together. A sleeping thing notices it at the end of its sleep interval. */
  #setClocks(byMs: number): void {
    const { things } = this.#scenario;
    const setAtMs = this.#nowMs;
    const waiting = Float64Array.from({ length: things }, (_, thing) => this.#queue.dueMs(thing));
    this.#queue.clear();
    for (let thing = 0; thing < things; thing += 1) {
      const isAsleep = this.#step[thing] === steps.target && this.#isLooking[thing] === 0;
      const dueMs = waiting[thing] ?? 0;
      this.#queue.add(thing, isAsleep ? this.#wakesAtMs(thing, setAtMs, byMs) : dueMs);
    }
    this.#setMs += byMs;
  }

  #wakesAtMs(thing: number, setAtMs: number, byMs: number): number {
    let atMs = this.#sleptFromMs[thing] ?? 0;
    const wallMs = (): number => START_MS + atMs + this.#setMs + (atMs >= setAtMs ? byMs : 0);
    const instant = { nowMs: wallMs, monotonicMs: () => atMs };
    const naps = new SleepIntervals(this.#agenda(thing).next.atMs, instant);
    for (let ms = naps.nextMs(instant); ms > 0; ms = naps.nextMs(instant)) atMs += ms;
    return Math.max(atMs, setAtMs);
  }
}

function serialNumber(thing: number): string {
  return `GW-${String(thing).padStart(7, '0')}`;
}

/** The agent's own cron parser, called once for each minute. */
function scenarioTimes(next: NextTime): NextTime {
  const known = new Map<number, number>();
  return (afterMs) => {
    const minute = Math.floor(afterMs / MINUTE_MS);
    const nextMs = known.get(minute) ?? next(minute * MINUTE_MS);
    known.set(minute, nextMs);
    return nextMs;
  };
}
