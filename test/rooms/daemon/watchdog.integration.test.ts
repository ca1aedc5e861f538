import { expect, test } from 'vitest';

import { loadConfig } from '../../../src/config/load-config.ts';
import { Liveness } from '../../../src/daemon/liveness.ts';
import { runDaemon } from '../../../src/daemon/run-daemon.ts';
import { systemClock } from '../../../src/system/clock.ts';
import { silentLog } from '../../../src/system/log.ts';
import { FileGateway } from '../../stand-ins/machine/file-gateway.ts';
import { startStandIn } from '../../stand-ins/service/stand-in.ts';
import { ManualClock } from '../service/manual-clock.ts';

const MINUTE_MS = 60_000;
const patience = { timeout: 60_000, interval: 20 };

test('what moves is alive for a while, and what rests until then and a while longer', () => {
  const clock = new ManualClock();
  const liveness = new Liveness(clock, 100);
  const aliveAfter = (ms: number): boolean => {
    clock.advance(ms);
    return liveness.isAlive;
  };
  expect([aliveAfter(99), aliveAfter(1)]).toEqual([true, false]);
  liveness.progress();
  expect([aliveAfter(99), aliveAfter(1)]).toEqual([true, false]);
  liveness.restFor(1_000);
  expect([aliveAfter(1_099), aliveAfter(1)]).toEqual([true, false]);
});

test('a daemon that hangs in a wait does not feed the watchdog, though its timers run', async () => {
  await using service = await startStandIn({ versions: [{ id: 'v0' }] });
  service.fail({ operation: 'targetVersion', fault: { kind: 'silence' }, times: 'always' });
  const image = Buffer.from('healthy');
  const serviceToml = 'deadlines = { first_byte = "1h", whole = "1h" }';
  await using gateway = await FileGateway.create({ serviceUrl: service.url, image, slotBytes: 4_096, serviceToml });
  const loaded = await loadConfig(gateway.configFile, {});
  let aheadMs = 0;
  let looks = 0;
  let fed = 0;
  const clock = {
    ...systemClock,
    monotonicMs: () => {
      looks += 1;
      return systemClock.monotonicMs() + aheadMs;
    },
  };
  const ignore = (): void => {};
  const manager = {
    watchdogMs: 30,
    ready: ignore,
    reloading: ignore,
    stopping: ignore,
    status: ignore,
    watchdog: () => void (fed += 1),
    [Symbol.asyncDispose]: async () => {},
  };
  const world = { environment: {}, clock, random: () => 0, log: silentLog, agentVersion: 'test' };
  const onReload = (): Disposable => ({ [Symbol.dispose]: ignore });
  const controller = new AbortController();
  const asked = service.nextCall('targetVersion');
  const daemon = runDaemon({ loaded, reload: async () => loaded, world, manager, onReload }, controller.signal);
  try {
    await asked;
    const before = fed;
    await expect.poll(() => fed - before, patience).toBeGreaterThan(3);
    aheadMs = 59 * MINUTE_MS;
    const [lastFed, lastLooks] = [fed, looks];
    // the timer asks whether anything moves
    await expect.poll(() => looks - lastLooks, patience).toBeGreaterThan(10);
    expect(fed).toBe(lastFed);
  } finally {
    controller.abort();
    await daemon;
  }
});
