import { describe, expect, test } from 'vitest';

import type { Page } from '../../../../src/cli/screen/page.ts';
import { renderQueue, renderStatus } from '../../../../src/cli/screen/pages/render-rows.ts';
import { plain } from '../../../../src/cli/screen/style.ts';
import type { TelemetryStatus } from '../../../../src/control/telemetry-protocol.ts';
import { noon } from '../fake-context.ts';
import { calmStatus, calmTelemetry } from '../fake-operations.ts';
import { rowOf } from '../row-of.ts';

const page: Page = { columns: 80, paint: plain, nowMs: noon, localOffset: () => 60 };

describe('a status with a spool', () => {
  const spoolOf = (telemetry: TelemetryStatus): string =>
    rowOf('Queue', renderStatus({ ...calmStatus, telemetry }, page));
  const well = { ...calmTelemetry, sources: calmTelemetry.sources.slice(0, 1) };
  const nothingDropped = { 'too-old': 0, 'queue-full': 0, 'memory-full': 0, refused: 0, damaged: 0 };

  test('shows queued datapoints and their cost', () => {
    const spool = { ...calmTelemetry.spool, dropped: nothingDropped };
    expect(spoolOf({ ...well, spool })).toBe(
      '3 datapoints in memory, 1200 on disk; 1 property; the oldest for 12 min; 4.0 MiB written per day',
    );
    expect(spoolOf({ ...well, spool: { ...spool, oldestAgeMs: 4_300 } })).toContain('the oldest for 4 s');
  });

  test('shows drops with their reason, and failing sources with their last error', () => {
    expect(spoolOf({ ...calmTelemetry, spool: { ...calmTelemetry.spool, error: 'the disk is full' } })).toMatch(
      /written per day the disk is full dropped: 7 queue-full, 1 refused sensors\[1\] \(level\): \/dev\/ttyUSB0: is unplugged$/,
    );
  });

  // Regression: "0 B a day to flash".
  test('omits writes until there are some', () => {
    const spool = { ...calmTelemetry.spool, flashBytesPerDay: 0 };
    expect(spoolOf({ ...calmTelemetry, spool })).not.toContain('a day');
    expect(rowOf('Storage', renderQueue({ ...calmTelemetry, spool }, page))).toBe('file size 64.0 KiB');
  });

  test('shows drops of a source, with the reason', () => {
    const flood = { name: 'level', state: 'parsing', readings: 9, failures: 0, lastError: undefined } as const;
    const drops = { dropped: 7_000, droppedFor: { 'too-fast': 6_999, malformed: 1 }, failingForMs: undefined };
    const source = { ...flood, ...drops, lastDrop: 'more than 200 a second' };
    expect(spoolOf({ ...calmTelemetry, sources: [source] })).toContain(
      'level: 7000 dropped (6999 too-fast, 1 malformed), the last: more than 200 a second',
    );
    const sources = [{ ...source, state: 'delivering' as const, failingForMs: 660_000 }];
    expect(spoolOf({ ...calmTelemetry, sources })).toContain('level: no usable reading for 11 min; 7000 dropped');
  });

  test('shows sources that have been connected and silent for ten minutes', () => {
    const [first] = calmTelemetry.sources;
    if (first === undefined) throw new Error('there is none');
    const silent = { ...first, name: 'door', state: 'connected' as const, lastError: undefined, silentForMs: 600_000 };
    const status = { ...calmTelemetry, sources: [silent, { ...silent, name: 'level', silentForMs: 599_000 }] };
    expect(rowOf('Silent', renderQueue(status, page))).toBe('door: connected, no reading for 10 min');
    expect(spoolOf(status)).toMatch(/ door: connected, no reading for 10 min$/);
  });

  test('does not list a hundred of them', () => {
    const sources = Array.from({ length: 100 }, (_, n) => ({
      name: `s${n}`,
      state: undefined,
      readings: 0,
      failures: 1,
      dropped: 0,
      droppedFor: {},
      failingForMs: 1_000,
      lastDrop: undefined,
      lastError: 'x',
    }));
    expect(spoolOf({ ...calmTelemetry, sources })).toMatch(/s4: x and 95 more failing sources$/);
  });
});

test('the first line of a status names a sensor that has been failing for long', () => {
  const sources = calmTelemetry.sources.map((source) => Object.assign({}, source, { failingForMs: 600_000 }));
  const { state: _, problems: __, ...rest } = calmStatus;
  const state = (telemetry: TelemetryStatus): string => rowOf('State', renderStatus({ ...rest, telemetry }, page));
  expect(state({ ...calmTelemetry, sources })).toBe(
    'gateway-1.4.2 is running. sensors[0] (temperature) and 1 other sensor delivered no reading for 10 min or more.',
  );
  expect(state(calmTelemetry)).not.toContain('sensor');
});

describe('the page of the spool', () => {
  test.each([
    ['Dropped', '7 queue-full 1 refused'],
    ['Delivered', '90 datapoints, in 3 requests; 1 request failed'],
    ['Storage', '4.0 MiB written per day; file size 64.0 KiB'],
    ['Sources', '1 of 2 work'],
    ['Failing', 'sensors[1] (level): /dev/ttyUSB0: is unplugged'],
    ['Suspended', 'level: the service rejects it at the moment'],
    ['Rejected', 'level 2026-02-26 11:00:00 +01:00 -1: status 422'],
  ])('shows in the row %s: %s', (label, told) => {
    expect(rowOf(label, renderQueue(calmTelemetry, page))).toBe(told);
  });

  test('shows where an unsynchronized clock gets its time', () => {
    const text = renderQueue({ ...calmTelemetry, clock: 'service' }, page);
    expect(rowOf('Clock', text)).toBe('not set on this machine; times come from the service');
  });
});
