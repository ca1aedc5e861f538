import { EventEmitter } from 'node:events';

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { Traffic } from '../../../src/service/traffic.ts';
import type { CountedSocket } from '../../../src/service/traffic.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

class Line extends EventEmitter implements CountedSocket {
  bytesRead = 0;
  bytesWritten = 0;
}

function counted(): { readonly traffic: Traffic; readonly pass: (ms: number) => void; readonly line: () => Line } {
  let atMs = 7 * MINUTE_MS;
  const traffic = new Traffic({ monotonicMs: () => atMs });
  const line = (): Line => {
    const opened = new Line();
    traffic.watch(opened);
    return opened;
  };
  const pass = (ms: number): void => {
    atMs += ms;
  };
  return { traffic, pass, line };
}

describe('what the line carried', () => {
  test('is counted while a connection is open, and once when it is closed', () => {
    const { traffic, line } = counted();
    const first = line();
    first.bytesRead = 1_000;
    expect(traffic.report.lastHour).toEqual({ sentBytes: 0, receivedBytes: 1_000 });
    first.bytesRead = 1_500;
    first.bytesWritten = 30;
    first.emit('close');
    const second = line();
    second.bytesWritten = 12;
    expect(traffic.report.sinceStart).toEqual({ sentBytes: 42, receivedBytes: 1_500 });
    first.bytesRead = 9_999;
    expect(traffic.report.sinceStart.receivedBytes).toBe(1_500);
  });

  test('leaves the last hour, then the last day, and stays in the whole', () => {
    const { traffic, pass, line } = counted();
    const open = line();
    open.bytesRead = 600;
    expect(traffic.report.lastHour.receivedBytes).toBe(600);
    pass(HOUR_MS);
    expect(traffic.report.lastHour.receivedBytes).toBe(0);
    expect(traffic.report.lastDay.receivedBytes).toBe(600);
    expect(traffic.report.measuredMs).toBe(HOUR_MS);
    pass(24 * HOUR_MS);
    expect(traffic.report.lastDay.receivedBytes).toBe(0);
    expect(traffic.report.sinceStart.receivedBytes).toBe(600);
  });

  test('of an idle time is spread over it', () => {
    const { traffic, pass, line } = counted();
    const open = line();
    pass(24 * HOUR_MS - 5 * MINUTE_MS);
    open.bytesRead = 288_000;
    expect(traffic.report.lastHour.receivedBytes).toBe(12_000);
    expect(traffic.report.lastDay.receivedBytes).toBe(288_000);
  });

  test('is never more in an hour than in a day, nor in a day than in all, and nothing is lost of all', () => {
    const steps = fc.array(
      fc.record({ afterMs: fc.integer({ min: 0, max: 5 * HOUR_MS }), bytes: fc.nat(1_000_000), asks: fc.boolean() }),
      { maxLength: 40 },
    );
    fc.assert(
      fc.property(steps, (all) => {
        const { traffic, pass, line } = counted();
        const open = line();
        for (const { afterMs, bytes, asks } of all) {
          pass(afterMs);
          open.bytesRead += bytes;
          if (!asks) continue;
          const { lastHour, lastDay, sinceStart } = traffic.report;
          expect(lastHour.receivedBytes).toBeLessThanOrEqual(lastDay.receivedBytes);
          expect(lastDay.receivedBytes).toBeLessThanOrEqual(sinceStart.receivedBytes + 1);
        }
        expect(traffic.report.sinceStart.receivedBytes).toBe(open.bytesRead);
      }),
    );
  });
});
