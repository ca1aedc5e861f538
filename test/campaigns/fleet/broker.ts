import { ReconnectBackoff } from '../../../src/service/messaging/broker/reconnect.ts';
import { defaultReconnect } from '../../../src/service/messaging/settings.ts';

export interface BrokerFigures {
  readonly awayMs: number;
  /** Part of the fleet that tries to connect in one second: while the broker is away, and from then on. */
  readonly busiestSecondAway: number;
  readonly busiestSecondBack: number;
  /** Until all are connected again. */
  readonly allBackMs: number;
}

const LONG_MS = 3_600_000;
const FAILED_AFTER_MS = 20;

/** Disconnects all things from their broker at the same time, after a long connection. It returns after `awayMs`. */
export function loseBroker(things: number, awayMs: number, random: () => number): BrokerFigures {
  const attempts = new Uint32Array(awayMs / 1000 + 600);
  let lastMs = 0;
  for (let thing = 0; thing < things; thing += 1) {
    const pauses = new ReconnectBackoff({ reconnect: defaultReconnect }, random);
    let atMs = pauses.nextMs({ code: 'broker-lost' }, LONG_MS);
    for (; atMs < awayMs; atMs += FAILED_AFTER_MS + pauses.nextMs({ code: 'broker-unreachable' }, FAILED_AFTER_MS)) {
      count(attempts, atMs);
    }
    count(attempts, atMs);
    lastMs = Math.max(lastMs, atMs);
  }
  const most = (part: Uint32Array): number => part.reduce((found, each) => Math.max(found, each), 0) / things;
  return {
    awayMs,
    busiestSecondAway: most(attempts.subarray(0, awayMs / 1000)),
    busiestSecondBack: most(attempts.subarray(awayMs / 1000)),
    allBackMs: lastMs - awayMs,
  };
}

function count(attempts: Uint32Array, atMs: number): void {
  const second = Math.floor(atMs / 1000);
  attempts[second] = (attempts[second] ?? 0) + 1;
}
