import { expect, test } from 'vitest';

import { telemetryFindings } from '../../../../src/daemon/doctor/telemetry-checks.ts';

type Measuring = Exclude<Parameters<typeof telemetryFindings>[0], undefined>;
type Sensors = Parameters<typeof telemetryFindings>[1];

const measuring: Measuring = {
  spool: {
    pointsInMemory: 0,
    pointsOnDisk: 12,
    bytesOnDisk: 600,
    fileBytes: 4096,
    oldestAgeMs: 90_000,
    properties: 0,
    dropped: { 'too-old': 0, 'queue-full': 2, 'memory-full': 0, refused: 1, damaged: 0 },
    deadLetters: 0,
    flashBytesPerDay: 0,
    bootsWithEstimatedTime: 0,
    error: undefined,
  },
  watches: [{ id: 'a', lastError: undefined }],
};
const sensor: Sensors['sensors'][number] = {
  name: 'sensors[0] (temp)',
  kind: 'file',
  mode: 'polled',
  place: '/sys/x',
  everyMs: 1_000,
  outputs: [],
  readings: 7,
  failures: 0,
  state: 'parsing',
  dropped: 0,
  droppedFor: {},
  lastReading: '21',
  lastReadingAgeMs: 4_000,
  unit: undefined,
  perMinute: 60,
  lastDrop: undefined,
  lastError: undefined,
  lastErrorCode: undefined,
  failingForMs: undefined,
  notice: undefined,
};

test('doctor has a line for each sensor, and for the queue', () => {
  expect(telemetryFindings(measuring, { isLive: true, sensors: [sensor] })).toEqual([
    { name: 'sensors[0] (temp)', ok: true, detail: 'read 4 s ago' },
    { name: 'queue', ok: true, detail: '12 datapoints on disk, the oldest for 1 min 30 s; 3 dropped' },
  ]);
});

test('reports unusable data of a sensor, and readings dropped from a working one', () => {
  const drops = { dropped: 3, lastDrop: 'nothing at /h in {"t":21.5}' };
  const useless = { ...sensor, ...drops, state: 'delivering' as const, failingForMs: 120_000 };
  const sensors = [
    useless,
    { ...sensor, ...drops },
    { ...sensor, state: 'connected' as const, silentForMs: 720_000, notice: 'only blank lines (7)' },
  ];
  expect(telemetryFindings(measuring, { isLive: true, sensors }).slice(0, 3)).toEqual([
    {
      name: 'sensors[0] (temp)',
      ok: false,
      detail: 'no usable reading for 2 min; 3 dropped, the last: nothing at /h in {"t":21.5}',
      advice: "agent sensors 'sensors[0] (temp)'",
    },
    { name: 'sensors[0] (temp)', ok: true, detail: 'read 4 s ago; 3 dropped, the last: nothing at /h in {"t":21.5}' },
    { name: 'sensors[0] (temp)', ok: true, detail: 'connected, no reading for 12 min; only blank lines (7)' },
  ]);
});

test('reports a failure with its error, its time, and the command to type', () => {
  const failing = { ...sensor, lastError: 'no such file', lastErrorCode: 'source-failed', failingForMs: 120_000 };
  const troubled: Measuring = {
    spool: { ...measuring.spool, error: 'the disk is full' },
    watches: [{ id: 'limit', lastError: 'it ended with 1' }],
  };
  const found = telemetryFindings(troubled, { isLive: true, sensors: [failing] });
  expect(found.map(({ name, ok, detail, advice }) => [name, ok, detail, advice])).toEqual([
    [
      'sensors[0] (temp)',
      false,
      'no such file (source-failed), for 2 min',
      'check the source in [[sensors]] and the device behind it',
    ],
    ['watch', false, 'limit: it ended with 1', 'see [[watch]] in the configuration'],
    ['queue', false, 'the disk is full', 'agent queue status'],
  ]);
});

test('without a daemon nothing is known of measurements', () => {
  expect(telemetryFindings(undefined, { isLive: false, sensors: [sensor] })).toEqual([]);
});

test('doctor names what an operator should know of a sensor that works', () => {
  const echoing = { ...sensor, notice: 'the adapter at /dev/ttyUSB0 echoes what is sent' };
  expect(telemetryFindings(measuring, { isLive: true, sensors: [echoing] })[0]).toEqual({
    name: 'sensors[0] (temp)',
    ok: true,
    detail: 'read 4 s ago; the adapter at /dev/ttyUSB0 echoes what is sent',
  });
});
