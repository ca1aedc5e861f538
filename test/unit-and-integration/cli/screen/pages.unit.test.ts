import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { Page } from '../../../../src/cli/screen/page.ts';
import {
  renderCheck,
  renderDoctor,
  renderError,
  renderOutcome,
} from '../../../../src/cli/screen/pages/render-reports.ts';
import { renderStatus } from '../../../../src/cli/screen/pages/render-rows.ts';
import { plain } from '../../../../src/cli/screen/style.ts';
import type { BoardReport } from '../../../../src/control/api/board-report.ts';
import type { OperationOutcome } from '../../../../src/control/events.ts';
import { nextStepOf } from '../../../../src/control/presentation/next-step.ts';
import type { BrokerReport, CheckReport, InstalledReport, StatusReport } from '../../../../src/control/reports.ts';
import { sourceStates } from '../../../../src/control/telemetry-protocol.ts';
import type { TelemetryStatus } from '../../../../src/control/telemetry-protocol.ts';
import { knownBy } from '../../../../src/mcu/flash/known-by.ts';
import { displayWidth } from '../../../../src/system/log/printable.ts';
import { anyText, steering } from '../any-text.ts';
import { noon } from '../fake-context.ts';
import { calmStatus, installCheck, troubledStatus } from '../fake-operations.ts';
import { rowOf } from '../row-of.ts';

const page: Page = { columns: 80, paint: plain, nowMs: noon, localOffset: () => 60 };

describe('the status of a gateway that is well', () => {
  const text = renderStatus(calmStatus, page);

  test.each([
    ['State', 'gateway-1.4.2 is running. All is well.'],
    ['To do', 'nothing'],
    [
      'Slot A',
      'gateway-1.4.2, running; next to boot ' +
        'id v-142, sha256:0123456789ab, signed by release.pem, since 2026-02-26 11:00 +01:00 (3 days ago)',
    ],
    ['Slot B', 'gateway-1.4.1, fallback (agent rollback); bootable'],
    ['Updates', 'gateway-1.4.2 is installed, as assigned by the service'],
    ['Next check', '2026-03-01 13:15 +01:00 (in 15 min)'],
    ['Last update', 'gateway-1.4.2 installed, 2026-02-26 11:04 +01:00 (3 days ago)'],
    ['Previous', ''],
    ['Installed', ''],
    ['Service', 'https://things.example.com, reached 2026-03-01 12:58 +01:00 (2 min ago)'],
    ['Device', 'GW-0001, Thing ID thing-1'],
    ['Agent', '0.1.0, the daemon is running'],
    ['Warning', ''],
    ['Quarantine', ''],
    ['To report', ''],
  ])('shows in the row %s: %s', (label, told) => {
    expect(rowOf(label, text)).toBe(told);
  });
});

test('the factory version is not called unsigned: the agent did not install it', () => {
  const image = { versionId: undefined, versionName: '1', slot: 'A', signedBy: undefined, digest: 'unknown' } as const;
  const factory: StatusReport = {
    ...calmStatus,
    running: { version: '1', slot: 'A', isOnTrial: false, isFactory: true },
    installed: { ...image, at: '2026-02-26T10:00Z', factory: true },
    slotStates: {
      A: { bootable: true, bootsNext: true, version: '1', isFactory: true },
      B: { bootable: false, bootsNext: false },
    },
    slots: {
      A: 'next to boot',
      B: 'not bootable (disabled in the boot environment)',
    },
  };
  const told = renderStatus(factory, page);
  expect(rowOf('State', told)).toBe('1, the factory image, is running. All is well.');
  expect(rowOf('Slot A', told)).toBe('1 (factory image), running; next to boot');
  expect(rowOf('Slot B', told)).toBe(
    'unknown version; not bootable (disabled in the boot environment), so slot A has no fallback',
  );
});

// Regression: with two blocked versions, it suggested to unblock the version that was not offered.
test('what to do names the deferred version of several blocked ones', () => {
  const [blocked] = troubledStatus.quarantine;
  if (blocked === undefined) throw new Error('a version is blocked');
  const quarantine = [
    { ...blocked, version: '3.0.0' },
    { ...blocked, version: '2.0.0', isOffered: true },
  ];
  // the service has renamed 2.0.0 since
  const idleReason = '3.0.0 is deferred: it is blocked';
  const deferred = { ...troubledStatus, quarantine, problems: [], state: 'ok', idleCode: 'quarantined' } as const;
  expect(nextStepOf({ ...deferred, idleReason, toDo: undefined })).toMatchObject({ version: '2.0.0' });
});

// Regression: the service renamed a release that was tried again, and no version to unblock was suggested.
test.each([
  ['that was renamed', ['1.0.0', '2.0.0'], '2.0.0-b', '2.0.0'],
  ['by its digest if another one has its name', ['2.0.0', '2.0.0'], '2.0.0', 'sha256:1'],
])('what to do names the release that failed last, %s', (_what, names, version, word) => {
  const [blocked] = troubledStatus.quarantine;
  const { lastOutcome } = troubledStatus;
  if (blocked === undefined || lastOutcome === undefined) throw new Error('a version is blocked');
  const quarantine = names.map((name, index) => {
    const at = index === 1 ? lastOutcome.at : '2026-01-01T00:00:00.000Z';
    return { ...blocked, version: name, digest: `sha256:${index}`, at };
  });
  const failed = { ...troubledStatus, quarantine, problems: ['last-attempt-rolled-back'], toDo: undefined } as const;
  const step = nextStepOf({ ...failed, lastOutcome: { ...lastOutcome, version } });
  expect(step).toMatchObject({ operation: 'unblock', version: word });
  expect(step.text).toContain(`agent unblock ${word}`);
});

describe('the status of a gateway in trouble', () => {
  const text = renderStatus(troubledStatus, page);

  test.each([
    [
      'State',
      'gateway-1.4.2 is running. The update to gateway-1.5.0 was rolled back: app.service did not become active within 5 min (health-failed). ' +
        'The last call to the service failed: cannot reach https://things.example.com: connection refused.',
    ],
    ['To do', 'correct the release, or try it again: agent unblock gateway-1.5.0'],
    ['Warning', 'unsigned firmware may be installed: [trust] allow_unsigned = true'],
    ['Updates', ''],
    ['Last update', 'gateway-1.5.0 rolled back, 2026-03-01 10:30 +01:00 (2 h 30 min ago)'],
    [
      'Boards',
      'meter: ATmega328P, meter-2.hex (sha256:bbbbbbbbbbbb), read back, 2026-02-26 11:03 +01:00 (3 days ago), 2 attempts, round trip 1.3 ms; unplugged',
    ],
    [
      'Quarantine',
      'gateway-1.5.0 (sha256:aaaaaaaaaaaa) blocked until 2026-03-31 10:30 +01:00 (in 30 days); to end this: agent unblock gateway-1.5.0',
    ],
    ['To report', 'not yet reported to the service: v-142 is running 2 results of update attempts'],
  ])('shows in the row %s: %s', (label, told) => {
    expect(rowOf(label, text)).toBe(told);
  });

  test('shows that only agent unblock ends a quarantine without a time', () => {
    const quarantine = troubledStatus.quarantine.map((entry) => ({ ...entry, until: undefined }));
    expect(renderStatus({ ...troubledStatus, quarantine }, page)).toMatch(
      /blocked; to\s+end\s+this:\s+agent\s+unblock\s+gateway-1.5.0/,
    );
  });

  test('fits on one screen of a console', () => {
    expect(text.split('\n').length).toBeLessThanOrEqual(24);
  });
});

test('a status names the broker, the reason for a lost connection, and ignored messages', () => {
  const broker = { url: 'mqtts://b', state: 'connected', problem: undefined, ignored: { late: 0 } } as const;
  const shown = (status: BrokerReport | undefined): string =>
    rowOf('Broker', renderStatus({ ...calmStatus, service: { ...calmStatus.service, broker: status } }, page));
  expect(shown(undefined)).toBe('');
  expect(shown(broker)).toBe('mqtts://b, connected');
  const problem = { code: 'broker-refused', message: 'b:8883 refused' };
  expect(shown({ ...broker, state: 'waiting', problem })).toBe('b:8883 refused (broker-refused) mqtts://b, waiting');
  const ignored = { late: 2, retained: 1, unknown: 0 };
  expect(shown({ ...broker, ignored })).toBe('mqtts://b, connected; messages ignored: 2 late, 1 retained');
});

test('a gateway that never did anything has a status too', () => {
  const text = renderStatus(
    {
      ...calmStatus,
      daemon: false,
      serialNumber: undefined,
      thingId: undefined,
      installed: undefined,
      previous: undefined,
      slots: undefined,
      booted: undefined,
      lastOutcome: undefined,
      nextCheckAt: undefined,
      service: { url: 'https://things.example.com', lastError: undefined, lastContactAt: undefined },
    },
    page,
  );
  expect(rowOf('Installed', text)).toBe('no update by this agent yet');
  expect(rowOf('Last update', text)).toBe('none yet');
  expect(rowOf('Next check', text)).toBe('');
  expect(rowOf('Service', text)).toBe('https://things.example.com, not checked by this command');
  expect(rowOf('Device', text)).toBe('no serial number, not activated');
  expect(rowOf('Agent', text)).toBe('0.1.0, the daemon is not running');
});

test.each<[Partial<StatusReport['service']>, string]>([
  [{}, 'not reached since the start'],
  [{ lastContactAt: '2026-03-01T11:00:00.000Z' }, 'reached 2026-03-01 12:00 +01:00 (1 h ago)'],
  [
    { lastRefusalAt: '2026-03-01T11:00:00.000Z' },
    'reached 2026-03-01 12:00 +01:00 (1 h ago), but replied with an error',
  ],
  [
    { lastContactAt: '2026-03-01T10:00:00.000Z', lastRefusalAt: '2026-03-01T11:00:00.000Z' },
    'reached 2026-03-01 12:00 +01:00 (1 h ago), but replied with an error; last successful call 2026-03-01 11:00 +01:00 (2 h ago)',
  ],
])('a service says whether it was reached: %j', (contact, told) => {
  const service = { url: 'https://things.example.com', lastError: 'an error', lastContactAt: undefined, ...contact };
  const text = renderStatus({ ...calmStatus, service }, { ...page, columns: 200 });
  expect(text.replaceAll(/\s+/g, ' ')).toContain(`Service https://things.example.com, ${told}`);
});

test.each<[Partial<StatusReport>, string]>([
  [{ nextCheckAt: '2026-03-01T12:15:00.000Z' }, '2026-03-01 13:15 +01:00 (in 15 min)'],
  [{ nextCheckAt: '2026-03-01T11:59:59.000Z' }, 'now'],
  [{ nextCheckAt: '2026-03-01T11:59:59.000Z', phase: 'staging' }, 'after this update'],
  [{ nextCheckAt: undefined }, 'none: no schedule'],
])('with %j the next look is: %s', (change, told) => {
  expect(rowOf('Next check', renderStatus({ ...calmStatus, ...change }, page))).toBe(told);
});

// Regression: "1 outcome wait for the service".
test('one outcome waits', () => {
  expect(rowOf('To report', renderStatus({ ...calmStatus, pendingReports: 1 }, page))).toBe(
    '1 result of update attempts',
  );
});

test.each([
  [1, '3 results of update attempts 1 older result was dropped to make room'],
  [2, '3 results of update attempts 2 older results were dropped to make room'],
])('%i dropped reports are shown', (droppedReports, told) => {
  expect(rowOf('To report', renderStatus({ ...calmStatus, pendingReports: 3, droppedReports }, page))).toBe(told);
});

test('a long quarantine is truncated', () => {
  const quarantine = Array.from({ length: 9 }, (_, n) => ({
    version: `v${n}`,
    versionId: undefined,
    digest: 'sha256:00',
    code: 'unhealthy',
    reason: 'bad',
    at: '',
    until: undefined,
  }));
  expect(rowOf('Quarantine', renderStatus({ ...calmStatus, quarantine }, page))).toContain('and 4 more');
});

const installed: fc.Arbitrary<InstalledReport> = fc.record({
  versionId: fc.option(anyText, { nil: undefined }),
  versionName: anyText,
  digest: anyText,
  slot: fc.constantFrom('A', 'B', undefined),
  signedBy: fc.option(anyText, { nil: undefined }),
  at: anyText,
});
const anyBoard: fc.Arbitrary<BoardReport> = fc.record({
  name: anyText,
  port: anyText,
  protocol: anyText,
  connected: fc.boolean(),
  chip: fc.option(anyText, { nil: undefined }),
  imageDigest: fc.option(anyText, { nil: undefined }),
  imageName: fc.option(anyText, { nil: undefined }),
  flashedAt: fc.option(anyText, { nil: undefined }),
  known: fc.constantFrom(undefined, ...knownBy),
  boots: fc.option(anyText, { nil: undefined }),
  attempts: fc.option(fc.nat(), { nil: undefined }),
  roundTripMs: fc.option(fc.float({ noNaN: true }), { nil: undefined }),
});
const anyTelemetry: fc.Arbitrary<TelemetryStatus> = fc.record({
  spool: fc.record({
    pointsInMemory: fc.nat(),
    pointsOnDisk: fc.nat(),
    bytesOnDisk: fc.nat(),
    fileBytes: fc.nat(),
    oldestAgeMs: fc.option(fc.nat(), { nil: undefined }),
    properties: fc.nat(),
    dropped: fc.record({
      'too-old': fc.nat(),
      'queue-full': fc.nat(),
      'memory-full': fc.nat(),
      refused: fc.nat(),
      damaged: fc.nat(),
    }),
    deadLetters: fc.nat(),
    flashBytesPerDay: fc.nat(),
    bootsWithEstimatedTime: fc.nat(),
    error: fc.option(anyText, { nil: undefined }),
  }),
  delivery: fc.record({
    delivered: fc.nat(),
    requests: fc.nat(),
    failedRequests: fc.nat(),
    resent: fc.nat(),
    suspendedEvents: fc.array(anyText, { maxLength: 3 }),
    error: fc.option(anyText, { nil: undefined }),
  }),
  clock: fc.constantFrom('unset', 'assumed', 'service', 'set'),
  sources: fc.array(
    fc.record({
      name: anyText,
      state: fc.constantFrom(undefined, ...sourceStates),
      readings: fc.nat(),
      failures: fc.nat(),
      dropped: fc.nat(),
      droppedFor: fc.record({ malformed: fc.nat() }, { requiredKeys: [] }),
      failingForMs: fc.option(fc.nat(), { nil: undefined }),
      lastDrop: fc.option(anyText, { nil: undefined }),
      lastError: fc.option(anyText, { nil: undefined }),
    }),
    { maxLength: 3 },
  ),
  watches: fc.array(fc.record({ id: anyText, lastError: fc.option(anyText, { nil: undefined }) }), { maxLength: 3 }),
  deadLetters: fc.array(fc.record({ event: anyText, at: anyText, value: anyText, reason: anyText }), { maxLength: 3 }),
});
const anyStatus: fc.Arbitrary<StatusReport> = fc.record({
  agentVersion: anyText,
  daemon: fc.boolean(),
  serialNumber: fc.option(anyText, { nil: undefined }),
  thingId: fc.option(anyText, { nil: undefined }),
  installed: fc.option(installed, { nil: undefined }),
  previous: fc.option(installed, { nil: undefined }),
  boards: fc.array(anyBoard, { maxLength: 3 }),
  phase: fc.oneof(fc.constantFrom('idle', 'staging', 'trial'), anyText),
  slots: fc.option(fc.dictionary(anyText, anyText, { maxKeys: 3 }), { nil: undefined }),
  booted: fc.constantFrom('A', 'B', undefined),
  lastOutcome: fc.option(
    fc.record({
      attempt: anyText,
      version: anyText,
      outcome: fc.constantFrom('installed', 'failed', 'refused', 'rolled-back'),
      code: anyText,
      reason: anyText,
      at: fc.oneof(anyText, fc.constant('2026-03-01T11:00:00Z')),
    }),
    { nil: undefined },
  ),
  quarantine: fc.array(
    fc.record({
      version: anyText,
      versionId: fc.option(anyText, { nil: undefined }),
      digest: anyText,
      code: anyText,
      reason: anyText,
      at: anyText,
      until: fc.option(anyText, { nil: undefined }),
    }),
    { maxLength: 8 },
  ),
  idleReason: anyText,
  nextCheckAt: fc.option(anyText, { nil: undefined }),
  pendingSwitch: fc.option(anyText, { nil: undefined }),
  pendingReports: fc.nat(),
  droppedReports: fc.nat(),
  warnings: fc.array(anyText, { maxLength: 3 }),
  telemetry: fc.option(anyTelemetry, { nil: undefined }),
  service: fc.record({
    url: anyText,
    lastError: fc.option(anyText, { nil: undefined }),
    lastContactAt: fc.option(anyText, { nil: undefined }),
    broker: fc.option(
      fc.record({
        url: anyText,
        state: fc.constantFrom('unused', 'connecting', 'connected', 'waiting'),
        problem: fc.option(fc.record({ code: anyText, message: anyText }), { nil: undefined }),
        ignored: fc.dictionary(anyText, fc.nat(), { maxKeys: 4 }),
      }),
      { nil: undefined },
    ),
  }),
});

/** Returns terminal control characters, and lines that are too long. */
function misbehaviour(text: string, columns: number): readonly string[] {
  return [...steering(text), ...text.split('\n').filter((line) => displayWidth(line) > columns)];
}

describe('for any foreign text, a page fits and contains no terminal control:', () => {
  const columns = fc.integer({ min: 40, max: 100 });

  test('the status', () => {
    fc.assert(
      fc.property(anyStatus, columns, (status, width) => {
        expect(misbehaviour(renderStatus(status, { ...page, columns: width }), width)).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  test('check, doctor, outcome and error', () => {
    fc.assert(
      fc.property(anyText, anyText, columns, (name, text, width) => {
        const narrow = { ...page, columns: width };
        const check: CheckReport = { ...installCheck, offered: { id: text, name, description: text }, reason: text };
        expect(misbehaviour(renderCheck(check, narrow), width)).toEqual([]);
        expect(misbehaviour(renderDoctor([{ name, ok: false, detail: text, advice: name }], narrow), width)).toEqual(
          [],
        );
        const held: OperationOutcome = { kind: 'deferred', version: name, code: text, reason: text };
        expect(misbehaviour(renderOutcome(held, false, narrow), width)).toEqual([]);
        expect(
          misbehaviour(renderError({ code: text, message: name, exit: 'failed', advice: text }, narrow), width),
        ).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });
});
