import { describe, expect, test } from 'vitest';

import type { Page } from '../../../../src/cli/screen/page.ts';
import { renderOutcome } from '../../../../src/cli/screen/pages/render-reports.ts';
import { renderStatus } from '../../../../src/cli/screen/pages/render-rows.ts';
import { plain } from '../../../../src/cli/screen/style.ts';
import type { StatusReport } from '../../../../src/control/reports.ts';
import { noon } from '../fake-context.ts';
import { calmStatus } from '../fake-operations.ts';
import { rowOf } from '../row-of.ts';

const page: Page = { columns: 80, paint: plain, nowMs: noon, localOffset: () => 60 };

test('a staged update that waits for its window shows its end, and who need not wait', () => {
  const reason = 'the reboot may begin between 02:00 and 05:00';
  const rebootWait = { reason, until: '2026-03-02T01:00:00.000Z' };
  const staged = { ...calmStatus, phase: 'staged', idleReason: '2 is staged in slot B', rebootDeferral: rebootWait };
  const told = renderStatus(staged, page);
  expect(rowOf('State', told)).toBe('gateway-1.4.2 is running. 2 is staged in slot B and starts in its reboot window.');
  expect(rowOf('To do', told)).toBe('wait for the reboot window, or reboot into it now: agent reboot');
  expect(rowOf('Reboot', told)).toBe(
    'the reboot may begin between 02:00 and 05:00: [update] reboot_window; ' +
      'waiting until 2026-03-02 02:00 +01:00 (in 13 h)',
  );
  expect(rowOf('Reboot', renderStatus(calmStatus, page))).toBe('');
  const alone = renderStatus({ ...staged, daemon: false }, page).replaceAll(/\s+/g, ' ');
  expect(alone).toContain('starts only when the daemon runs in its reboot window. To do agent reboot');
  expect(alone).not.toContain('waiting until');
});

test('a hook that defers is shown with its reason, and with ways around it', () => {
  const hookWait = { reason: 'before_reboot defers: the press is running', until: '2026-03-01T12:04:00.000Z' };
  expect(rowOf('Consent', renderStatus({ ...calmStatus, hookDeferral: hookWait }, page))).toBe(
    'before_reboot defers: the press is running; next call 2026-03-01 13:04 +01:00 (in 4 min)',
  );
});

test('an update that ends with a wait for its reboot window shows how to end that', () => {
  const outcome = {
    kind: 'deferred',
    version: 'v1',
    code: 'outside-reboot-window',
    reason: 'it opens at 02:00',
  } as const;
  const told = 'v1 is staged: it opens at 02:00 (outside-reboot-window). Now: agent reboot\n';
  expect(renderOutcome(outcome, false, page)).toBe(told);
});

test('a throttled download shows the reason, and its end', () => {
  const until = '2026-03-01T17:00:00.000Z';
  const slowed = (throttle: StatusReport['throttle']): string =>
    rowOf('Rate limit', renderStatus({ ...calmStatus, throttle }, page));
  expect(slowed({ bytesPerSecond: 204_800, until })).toBe(
    'downloads use at most 200.0 KiB/s until 2026-03-01 18:00 +01:00 (in 5 h): [service] max_rate',
  );
  expect(slowed({ bytesPerSecond: 2_097_152 })).toBe('downloads use at most 2.0 MiB/s: [service] max_rate');
  expect(slowed(undefined)).toBe('');
});

describe('what the line carried', () => {
  const carried = (receivedBytes: number) => ({ sentBytes: 1024, receivedBytes });
  const traffic = { lastHour: carried(2048), lastDay: carried(3 << 20), sinceStart: carried(5 << 20) };
  const told = (countedMs?: number): string =>
    rowOf('Traffic', renderStatus({ ...calmStatus, traffic: { ...traffic, measuredMs: countedMs } }, page)).replaceAll(
      /\s+/g,
      ' ',
    );
  const [hour, day, all] = [
    '2.0 KiB down and 1.0 KiB up in the last hour; ',
    '3.0 MiB down and 1.0 KiB up in the last 24 h; ',
    '5.0 MiB down and 1.0 KiB up since the daemon started',
  ];

  // Regression: "842 B down in the last hour" of a gateway that had fetched 58 MiB before its daemon was restarted.
  test.each([
    {
      why: 'after a restart, no window is named that is longer than what was counted',
      minutes: 12,
      says: `${all} 12 min ago`,
    },
    { why: 'after an hour, the hour is named, too', minutes: 60, says: `${hour}${all} 1 h ago` },
    { why: 'after a day, the day is named, too', minutes: 25 * 60, says: `${hour}${day}${all} 25 h ago` },
  ])('is told in both directions: $why', ({ minutes, says }) => {
    expect(told(minutes * 60_000)).toBe(says);
  });

  test('is shown for an older daemon, too, and without one', () => {
    expect(told()).toBe(`${hour}${day}${all}`);
    expect(rowOf('Traffic', renderStatus(calmStatus, page))).toBe('');
  });
});

test.each([
  { measuredMs: 60_000, shows: '1.0 MiB to storage since the daemon started 1 min ago' },
  { measuredMs: 43_200_000, shows: '1.0 MiB to storage since the daemon started 12 h ago, 2.0 MiB a day' },
])('shows what the agent writes to storage, after an hour also per day: $shows', ({ measuredMs, shows }) => {
  const written = { bytes: 1 << 20, measuredMs };
  expect(rowOf('Written', renderStatus({ ...calmStatus, written }, page)).replaceAll(/\s+/g, ' ')).toBe(shows);
  expect(rowOf('Written', renderStatus(calmStatus, page))).toBe('');
});

test.each([
  ['rolled-back', 'rollback to 1.4.0 undone'],
  ['installed', 'rolled back to 1.4.0'],
] as const)('names a rollback that ended as %s: %s', (outcome, shown) => {
  const at = '2026-03-02T11:00:00.000Z';
  const lastOutcome = { attempt: 'a', version: '1.4.0', by: 'rollback', outcome, code: 'x', reason: 'y', at } as const;
  expect(rowOf('Last update', renderStatus({ ...calmStatus, lastOutcome }, page))).toContain(shown);
});

test('a missing verification is shown next to the last update, although it succeeded', () => {
  const reason =
    'went back to what was installed before, which was not verified again: gateway (it changed after it was verified)';
  const lastOutcome = {
    attempt: 'a',
    version: '1.4.0',
    outcome: 'installed',
    code: 'ok',
    reason,
    at: '2026-03-02T11:00:00.000Z',
  } as const;
  const text = (why: string): string =>
    renderStatus({ ...calmStatus, lastOutcome: { ...lastOutcome, reason: why } }, page).replaceAll(/\s+/g, ' ');
  expect(text(reason)).toContain(reason);
  expect(text('went back to what was installed before')).not.toContain('went back');
});

// Regression: `dpkg -i` of another agent, and "All is well: gateway-1.4.2 is installed."
test('a manually replaced package is shown with both versions, as the first row', () => {
  const packages = [
    { name: 'agent', package: 'thing-agent', version: '1.9', installedByUpdate: '1.1' },
    { name: 'app', package: 'pump', version: '2.0', installedByUpdate: '2.0' },
    { name: 'tools', package: 'tools', version: '7', installedByUpdate: undefined },
    { name: 'gone', package: 'gone', version: undefined, installedByUpdate: '3.1' },
  ];
  const told = renderStatus({ ...calmStatus, packages }, { ...page, columns: 400 });
  expect(rowOf('State', told)).toBe(
    'gateway-1.4.2 is running. thing-agent and gone were replaced manually: see Packages.',
  );
  expect(rowOf('Packages', told)).toBe(
    'agent: thing-agent 1.9, installed manually; the last update had installed 1.1 ' +
      'app: pump 2.0 tools: tools 7 gone: gone is not installed; an update had installed 3.1',
  );
});

test('packages from updates add only their versions', () => {
  const packages = [{ name: 'agent', package: 'thing-agent', version: '1.1', installedByUpdate: '1.1' }];
  const told = renderStatus({ ...calmStatus, packages }, page);
  expect(rowOf('State', told)).toBe('gateway-1.4.2 is running. All is well.');
  expect(rowOf('Packages', told)).toBe('agent: thing-agent 1.1');
  expect(rowOf('Packages', renderStatus(calmStatus, page))).toBe('');
});

// Regression: without the record of updates, it showed that nothing was installed.
test('unknown values are not shown as none', () => {
  const text = renderStatus(
    { ...calmStatus, phase: 'lost', slots: undefined, installed: undefined, lastOutcome: undefined },
    page,
  );
  expect(rowOf('Installed', text)).toBe('unknown');
  expect(rowOf('Last update', text)).toBe('unknown');
});
