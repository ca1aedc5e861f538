import process from 'node:process';
import { mock } from 'node:test';
import { setImmediate, setTimeout } from 'node:timers/promises';

import { SteppedClock } from '../../fakes/clock.ts';

/** Handles that exist in an idle process. Pipes: a client at the control socket may also wait. */
const idleResources = new Set(['Timeout', 'Immediate', 'TTYWrap', 'PipeWrap']);
/** Turns of the event loop for data in flight between two ends in this process. */
const QUIET_TURNS = 5;

/**
 * Everything sleeps when only idle handles keep the event loop alive: no file, connection or program. `Date` shows this
 * time, too, for packages that read it directly (node-cron).
 */
export class VirtualTime extends SteppedClock implements Disposable {
  constructor(startMs: number) {
    super(startMs);
    mock.timers.enable({ apis: ['Date'], now: startMs });
  }

  override async sleep(ms: number, signal: AbortSignal): Promise<void> {
    await super.sleep(Math.max(1, Math.ceil(ms)), signal); // as a timer's
  }

  [Symbol.dispose](): void {
    mock.timers.reset();
  }

  protected override async quiet(): Promise<void> {
    for (let turns = 0; turns < QUIET_TURNS;) {
      await setImmediate();
      const isIdle = process.getActiveResourcesInfo().every((name) => idleResources.has(name));
      turns = isIdle ? turns + 1 : 0;
      if (turns === 0) await setTimeout(1);
    }
  }

  protected override onTime(nowMs: number): void {
    mock.timers.setTime(Math.floor(nowMs));
  }
}
