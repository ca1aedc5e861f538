import { realpath } from 'node:fs/promises';

import { valueOrUndefined } from '../system/errors.ts';
import type { Clock } from '../system/time/clock.ts';
import { SerialError } from './errors.ts';
import type { LeasedLine, Line, LineSettings, OpenPort } from './line.ts';

export interface SharedPortsDeps {
  readonly clock: Clock;
  /**
   * True while an operation runs. A port that it has taken stays taken until it ends, however often it opens the port.
   */
  readonly isBusy: () => boolean;
  readonly open?: OpenPort;
}

interface Lent {
  readonly ports: readonly string[];
  /** Takes the line back from the source. */
  readonly revokeLeases: AbortController;
  readonly released: PromiseWithResolvers<void>;
}

/** The interval at which a source checks whether its port is free again. */
const LOOK_MS = 1_000;
/**
 * A source releases the port immediately. After this time the port is opened anyway, and the error names its holder.
 */
const RECALL_MS = 10_000;
const AGAIN_MS = 100;

/**
 * Shares serial ports between telemetry, which reads them, and the flashing of boards. The board goes first; the source
 * waits, and continues afterwards.
 */
export class SharedPorts {
  readonly #clock: Clock;
  readonly #isBusy: () => boolean;
  readonly #open: OpenPort;
  readonly #lent = new Set<Lent>();
  /** The number of open lines of boards, by port. Zero: the running operation may open the port again. */
  readonly #taken = new Map<string, number>();

  constructor({ clock, isBusy, open = openSerialLine }: SharedPortsDeps) {
    this.#clock = clock;
    this.#isBusy = isBusy;
    this.#open = open;
  }

  /**
   * Opens a port for a source, after waiting for a board that uses it. The line throws SerialError `port-busy` as soon as
   * a board wants the port.
   */
  readonly openForSource = async (path: string, settings: LineSettings, signal: AbortSignal): Promise<LeasedLine> => {
    const ports = await namesOf(path);
    while (ports.some((port) => this.#isTaken(port))) await this.#clock.sleep(LOOK_MS, signal);
    const [other] = this.#lentOf(ports);
    if (other !== undefined)
      throw new SerialError('port-busy', `cannot open ${path}: a source of this agent reads it as ${other.ports[0]}`);
    const lent: Lent = { ports, revokeLeases: new AbortController(), released: Promise.withResolvers() };
    const giveBack = (): void => {
      this.#lent.delete(lent);
      lent.released.resolve();
    };
    this.#lent.add(lent);
    try {
      const line = releasing(await this.#open(path, settings, signal), giveBack);
      const leased = (own: AbortSignal): AbortSignal => AbortSignal.any([own, lent.revokeLeases.signal]);
      return {
        write: async (bytes, own) => line.write(bytes, leased(own)),
        read: async (timeoutMs, own) => line.read(timeoutMs, leased(own)),
        [Symbol.asyncDispose]: line[Symbol.asyncDispose],
      };
    } catch (error) {
      giveBack();
      throw error;
    }
  };

  readonly openForBoard: OpenPort = async (path, settings, signal) => {
    const ports = await namesOf(path);
    this.#count(ports, 1);
    try {
      const lent = this.#revokeLeases(ports);
      const open = async (): Promise<Line> => this.#open(path, settings, signal);
      const line = await (lent.length === 0 ? open() : this.#patiently(open, lent, signal));
      return releasing(line, () => this.#count(ports, -1));
    } catch (error) {
      this.#count(ports, -1);
      throw error;
    }
  };

  /** Takes back the lines that sources have of these ports. */
  #revokeLeases(ports: readonly string[]): readonly Lent[] {
    const lent = this.#lentOf(ports);
    for (const { revokeLeases } of lent)
      revokeLeases.abort(new SerialError('port-busy', `${ports[0]} is needed for its board`));
    return lent;
  }

  #lentOf(ports: readonly string[]): readonly Lent[] {
    return [...this.#lent].filter((one) => one.ports.some((port) => ports.includes(port)));
  }

  /** Opens the port repeatedly for a while, since a driver may take some time to close a returned port. */
  async #patiently(open: () => Promise<Line>, lent: readonly Lent[], signal: AbortSignal): Promise<Line> {
    await this.#released(lent, signal);
    const endMs = this.#clock.monotonicMs() + RECALL_MS;
    for (;;) {
      try {
        return await open();
      } catch (error) {
        const isLate = this.#clock.monotonicMs() >= endMs;
        if (isLate || !(error instanceof SerialError) || error.code !== 'port-busy') throw error;
      }
      await this.#clock.sleep(AGAIN_MS, signal);
    }
  }

  async #released(lent: readonly Lent[], signal: AbortSignal): Promise<void> {
    const done = new AbortController();
    const late = this.#clock.sleep(RECALL_MS, AbortSignal.any([signal, done.signal]));
    late.catch(() => {}); // the race has its result already
    await Promise.race([Promise.all(lent.map(async ({ released }) => released.promise)), late]);
    done.abort();
  }

  #isTaken(port: string): boolean {
    const lines = this.#taken.get(port);
    if (lines === 0 && !this.#isBusy()) this.#taken.delete(port);
    return this.#taken.has(port);
  }

  #count(ports: readonly string[], more: number): void {
    for (const port of ports) this.#taken.set(port, (this.#taken.get(port) ?? 0) + more);
  }
}

/** Returns the line, which calls this when it was closed. */
function releasing<T extends Line>(line: T, release: () => void): T {
  const close = line[Symbol.asyncDispose].bind(line);
  let isReleased = false;
  return Object.assign(line, {
    [Symbol.asyncDispose]: async (): Promise<void> => {
      try {
        await close();
      } finally {
        if (!isReleased) release();
        isReleased = true;
      }
    },
  });
}

/** The port as configured, and the device behind it, since a board that restarts may return as another device. */
async function namesOf(path: string): Promise<readonly string[]> {
  return [...new Set([path, (await valueOrUndefined(realpath(path))) ?? path])];
}

/** Loads the driver only when it is needed. */
async function openSerialLine(path: string, settings: LineSettings, signal: AbortSignal): Promise<Line> {
  return (await import('./serial-line.ts')).openSerialLine(path, settings, signal);
}
