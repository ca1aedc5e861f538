import { describe, expect, test } from 'vitest';

import { type Log, silentLog } from '../../../../src/system/log/log.ts';
import {
  connectServiceManager,
  type SendToManager,
  watchdogMs,
} from '../../../../src/system/processes/systemd-notify.ts';

const environment = { NOTIFY_SOCKET: '/run/systemd/notify' };

/** A manager that reads a message on request. */
class SlowManager {
  readonly messages: (readonly string[])[] = [];
  #answer = Promise.withResolvers<void>();

  readonly send: SendToManager = async (assignments) => {
    this.messages.push(assignments);
    await this.#answer.promise;
  };

  async read(): Promise<void> {
    this.#settle((answer) => answer.resolve());
    await drained();
  }

  async fail(): Promise<void> {
    this.#settle((answer) => answer.reject(new Error('no such socket')));
    await drained();
  }

  #settle(settle: (answer: PromiseWithResolvers<void>) => void): void {
    const answer = this.#answer;
    this.#answer = Promise.withResolvers();
    settle(answer);
  }
}

async function drained(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

describe('a service manager', () => {
  test('receives one message at a time, and only the newest of each subject', async () => {
    const manager = new SlowManager();
    const systemd = connectServiceManager(environment, silentLog, manager.send);
    systemd.status('starting');
    for (const text of ['one', 'two', 'three']) systemd.status(text);
    for (let count = 0; count < 1_000; count += 1) systemd.watchdog();
    systemd.ready();
    expect(manager.messages).toEqual([['STATUS=starting']]);
    await manager.read();
    expect(manager.messages.slice(1)).toEqual([['STATUS=three', 'WATCHDOG=1', 'READY=1']]);
    await manager.read();
    expect(manager.messages).toHaveLength(2);
  });

  test('hears again, with the next word, what it did not get', async () => {
    const manager = new SlowManager();
    const warnings: string[] = [];
    const log: Log = { ...silentLog, warn: (_, message) => void warnings.push(message) };
    const systemd = connectServiceManager(environment, log, manager.send);
    systemd.ready();
    await manager.fail();
    expect(manager.messages).toEqual([['READY=1']]);
    systemd.watchdog();
    await manager.fail();
    systemd.watchdog();
    expect(manager.messages.slice(1)).toEqual([
      ['READY=1', 'WATCHDOG=1'],
      ['READY=1', 'WATCHDOG=1'],
    ]);
    await manager.read();
    expect(warnings).toEqual(["cannot notify systemd of the agent's state"]);
  });

  test('receives the end before the connection is closed', async () => {
    const manager = new SlowManager();
    const systemd = connectServiceManager(environment, silentLog, manager.send);
    systemd.watchdog();
    systemd.stopping();
    const closing = systemd[Symbol.asyncDispose]();
    await manager.read();
    expect(await Promise.race([closing, drained().then(() => 'still open')])).toBe('still open');
    await manager.read();
    await closing;
    expect(manager.messages).toEqual([['WATCHDOG=1'], ['STOPPING=1']]);
  });

  test('gets a status of one short line', async () => {
    const manager = new SlowManager();
    connectServiceManager(environment, silentLog, manager.send).status(`a\nREADY=1 \t b${'x'.repeat(500)}`);
    const [[status = ''] = []] = manager.messages;
    expect(status).toMatch(/^STATUS=a READY=1 bx+$/);
    expect(status.length).toBeLessThanOrEqual(210);
  });

  test('learns when a reload began, as sd_notify(3) wants it', async () => {
    const manager = new SlowManager();
    connectServiceManager(environment, silentLog, manager.send).reloading();
    expect(manager.messages).toEqual([['RELOADING=1', expect.stringMatching(/^MONOTONIC_USEC=\d+$/)]]);
  });

  test('that is absent receives no message', async () => {
    const manager = new SlowManager();
    await using systemd = connectServiceManager({ WATCHDOG_USEC: '5000000' }, silentLog, manager.send);
    systemd.ready();
    systemd.stopping();
    expect(systemd.watchdogMs).toBeUndefined();
    expect(manager.messages).toEqual([]);
  });
});

describe('watchdogMs', () => {
  test.each([
    [{ WATCHDOG_USEC: '120000000' }, 120_000],
    [{ WATCHDOG_USEC: '120000000', WATCHDOG_PID: '42' }, 120_000],
    [{ WATCHDOG_USEC: '120000000', WATCHDOG_PID: '43' }, undefined],
    [{ WATCHDOG_USEC: '0' }, undefined],
    [{ WATCHDOG_USEC: 'soon' }, undefined],
    [{}, undefined],
  ])('of %j is %j', (variables, expected) => {
    expect(watchdogMs(variables, 42)).toBe(expected);
  });
});
