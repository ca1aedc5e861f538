import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { loadConfig } from '../../../../src/config/load-config.ts';
import { socketNames } from '../../../../src/control/access.ts';
import { controlClient } from '../../../../src/control/client/control-client.ts';
import { Daemon } from '../../../../src/daemon/cycles/run-daemon.ts';
import { Liveness } from '../../../../src/daemon/cycles/task-timer.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { systemClock } from '../../../../src/system/time/clock.ts';
import { ManualClock } from '../../../fakes/clock.ts';
import { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import { impostor } from '../../control/control-rig.ts';

const MINUTE_MS = 60_000;
const never = new AbortController().signal;
const patience = { interval: 20 };

test('an active task is alive for a while, and an idle one until its deadline and a while longer', () => {
  const clock = new ManualClock();
  const liveness = new Liveness(clock, 100);
  const aliveAfter = (ms: number): boolean => {
    clock.advance(ms);
    return liveness.isAlive;
  };
  expect([aliveAfter(99), aliveAfter(1)]).toEqual([true, false]);
  liveness.progress();
  expect([aliveAfter(99), aliveAfter(1)]).toEqual([true, false]);
  liveness.expectIdle(1_000);
  expect([aliveAfter(1_099), aliveAfter(1)]).toEqual([true, false]);
});

interface Watched {
  readonly gateway: FileGateway;
  /** Number of watchdog messages. */
  readonly fed: () => number;
  /** Number of reads of the clock. */
  readonly looks: () => number;
  readonly runDirectory: string;
  readonly putAhead: (ms: number) => void;
  /** As by the package of another version. */
  readonly removeProgram: () => void;
  /** Makes the service stop responding; resolves at its next request. */
  readonly silence: () => Promise<unknown>;
  /** Resolves when it has ended. */
  readonly ended: Promise<void>;
  /** Messages to the service manager, in order. */
  readonly told: readonly string[];
}

/** A daemon in this process that waits for the service, for ever, unless it answers. */
async function watchedDaemon({ answers = false } = {}): Promise<AsyncDisposable & Watched> {
  await using stack = new AsyncDisposableStack();
  const service = stack.use(await startStandIn({ versions: [{ id: 'v0' }] }));
  const silence = (): Promise<unknown> => {
    service.fail({ operation: 'targetVersion', fault: { kind: 'silence' }, times: 'always' });
    return service.nextCall('targetVersion');
  };
  const image = Buffer.from('healthy');
  const serviceToml = 'timeouts = { first_byte = "1h", total = "1h" }';
  const options = { serviceUrl: service.url, image, slotBytes: 4_096, serviceToml };
  const gateway = stack.use(await FileGateway.create(options));
  const loaded = await loadConfig(gateway.configFile, {});
  let [aheadMs, looks, fed, isReplaced] = [0, 0, 0, false];
  const clock = {
    ...systemClock,
    monotonicMs: () => {
      looks += 1;
      return systemClock.monotonicMs() + aheadMs;
    },
  };
  const ignore = (): void => {};
  const told: string[] = [];
  const manager = {
    watchdogMs: 30,
    ready: () => void told.push('ready'),
    reloading: ignore,
    stopping: ignore,
    status: ignore,
    watchdog: () => {
      fed += 1;
      told.push('watchdog');
    },
    [Symbol.asyncDispose]: async () => {},
  };
  const world = { environment: {}, clock, random: () => 0, log: silentLog, agentVersion: 'test' };
  const onReload = (): Disposable => ({ [Symbol.dispose]: ignore });
  const controller = new AbortController();
  const asked = answers ? service.nextCall('targetVersion') : silence();
  const deps = { loaded, reload: async () => loaded, world, manager, onReload, isReplaced: () => isReplaced };
  const daemon = new Daemon(deps, controller.signal).run();
  stack.defer(async () => {
    controller.abort();
    await daemon;
  });
  await asked;
  const all = stack.move();
  return {
    gateway,
    runDirectory: loaded.config.paths.run,
    fed: () => fed,
    looks: () => looks,
    putAhead: (ms) => void (aheadMs += ms),
    removeProgram: () => void (isReplaced = true),
    silence,
    ended: daemon,
    told,
    [Symbol.asyncDispose]: async () => all.disposeAsync(),
  };
}

test('a daemon that hangs in a wait does not feed the watchdog, though its timers run', async () => {
  await using daemon = await watchedDaemon();
  const before = daemon.fed();
  await expect.poll(() => daemon.fed() - before, patience).toBeGreaterThan(3);
  daemon.putAhead(59 * MINUTE_MS);
  const [lastFed, lastLooks] = [daemon.fed(), daemon.looks()];
  // the timer asks whether anything moves
  await expect.poll(() => daemon.looks() - lastLooks, patience).toBeGreaterThan(10);
  expect(daemon.fed()).toBe(lastFed);
});

test('a daemon that has not answered its own socket for a minute does not feed the watchdog, until it answers', async () => {
  await using daemon = await watchedDaemon();
  const before = daemon.fed();
  await expect.poll(() => daemon.fed() - before, patience).toBeGreaterThan(3);
  const pipe = join(daemon.gateway.directory, 'pipe');
  execFileSync('mkfifo', [pipe]);
  const stuck = Array.from({ length: 8 }, async () => open(pipe, 'r')); // more than libuv has threads
  const wasFed = daemon.fed();
  await expect.poll(() => daemon.fed() - wasFed, patience).toBeGreaterThan(10);
  daemon.putAhead(61_000);
  const [lastFed, lastLooks] = [daemon.fed(), daemon.looks()];
  await expect.poll(() => daemon.looks() - lastLooks, patience).toBeGreaterThan(20);
  expect(daemon.fed() - lastFed).toBeLessThan(2);
  const writer = openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK);
  for (const file of await Promise.all(stuck)) await file.close();
  closeSync(writer);
  await expect.poll(() => daemon.fed() - lastFed, patience).toBeGreaterThan(3);
});

// Regression: the watchdog was fed while the daemon was unreachable, because its sockets had been moved away.
test('a daemon that finds no socket of its own for a minute does not feed the watchdog', async () => {
  await using daemon = await watchedDaemon();
  await rename(daemon.runDirectory, `${daemon.runDirectory}.old`);
  expect(await fedAMinuteLater(daemon)).toBeLessThan(2);
});

test('does not feed the watchdog if its socket accepts connections but never responds', async () => {
  await using daemon = await watchedDaemon();
  const path = join(daemon.runDirectory, socketNames.root);
  await rm(path);
  await using _silent = await impostor(path, '', false);
  expect(await fedAMinuteLater(daemon)).toBeLessThan(2);
});

/** Returns the number of watchdog messages since then; an earlier request may still be answered. */
async function fedAMinuteLater(daemon: Watched): Promise<number> {
  const looked = daemon.looks();
  await expect.poll(() => daemon.looks() - looked, patience).toBeGreaterThan(20);
  daemon.putAhead(61_000);
  const [lastFed, lastLooks] = [daemon.fed(), daemon.looks()];
  await expect.poll(() => daemon.looks() - lastLooks, patience).toBeGreaterThan(20);
  return daemon.fed() - lastFed;
}

test('READY does not wait for the first watchdog message', async () => {
  await using daemon = await watchedDaemon();
  await expect.poll(() => daemon.told.slice(0, 2), patience).toEqual(['ready', 'watchdog']);
});

// Regression: dpkg was killed before it restarted the daemon, which failed at each update from then on: its files were gone.
test('a daemon whose program was replaced ends, so that the new one is started, but not while it works', async () => {
  await using daemon = await watchedDaemon({ answers: true });
  const client = controlClient(join(daemon.runDirectory, socketNames.root));
  await expect.poll(async () => (await client.status({}, never)).activity, patience).toBeUndefined();
  const called = daemon.silence();
  const update = client.update({ reboot: true, force: false }, () => {}, never).catch((error: unknown) => error);
  await called;
  let hasEnded = false;
  void daemon.ended.then(() => (hasEnded = true));
  daemon.removeProgram();
  const before = daemon.fed();
  await expect.poll(() => daemon.fed() - before, patience).toBeGreaterThan(5);
  expect(hasEnded).toBe(false);
  await client.hold({}, never);
  expect(await update).toMatchObject({ code: 'preempted' });
  await daemon.ended;
});

test('a daemon whose program was replaced reports that to an update request, and ends', async () => {
  await using daemon = await watchedDaemon({ answers: true });
  const client = controlClient(join(daemon.runDirectory, socketNames.root));
  await expect.poll(async () => (await client.status({}, never)).activity, patience).toBeUndefined();
  daemon.removeProgram();
  const update = client.update({ reboot: true, force: false }, () => {}, never);
  await expect(update).rejects.toMatchObject({ code: 'agent-replaced' });
  await daemon.ended;
});
