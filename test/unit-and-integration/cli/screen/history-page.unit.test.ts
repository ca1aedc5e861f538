import fc from 'fast-check';
import { expect, test } from 'vitest';

import type { Page } from '../../../../src/cli/screen/page.ts';
import { renderHistory, renderStory } from '../../../../src/cli/screen/pages/render-rows.ts';
import { anyText, steering } from '../any-text.ts';

const page: Page = {
  columns: 80,
  paint: (_tone, text) => text,
  nowMs: Date.parse('2026-12-01T12:00:00.000Z'),
  localOffset: () => 0,
};
const told = {
  attempt: '0b1c2d3e-0000',
  version: '1.5.0',
  from: '1.4.0',
  by: 'service',
  startedAt: '2026-12-01T10:00:00.000Z',
  endedAt: '2026-12-01T10:03:20.000Z',
  durationSeconds: 200,
  outcome: 'rolled-back',
  code: 'health-failed',
  reason: 'app.service is not active',
  fetchedBytes: 5 * 1024 * 1024,
  deltaBaseBytes: 2 * 1024 * 1024,
  writtenBytes: 1024 * 1024,
  reusedBytes: 3 * 1024 * 1024,
  steps: [{ at: '2026-12-01T10:00:01.000Z', step: 'slot-opened', detail: 'gateway' }],
};

test('an attempt shows time, versions, result, reason, duration, origin and cost', () => {
  const text = renderHistory({ attempts: [told], discarded: 2 }, page).replaceAll(/\s+/g, ' ');
  expect(text).toBe(
    '2 older entries were discarded. 0b1c2d3e 2026-12-01 10:00 +00:00 (2 h ago) 1.4.0 to 1.5.0: rolled back after ' +
      '3 min 20 s app.service is not active (health-failed) assigned by the service; downloaded 5.0 MiB; from the running slot 2.0 MiB; ' +
      'written 1.0 MiB; unchanged 3.0 MiB ',
  );
});

// Regression: after a rollback to a slot that had changed, only --json showed that it was not verified again.
test('an attempt that succeeded shows only if it was not verified again, or was older', () => {
  const doubt =
    'went back to what was installed before, which was not verified again: gateway (it changed after it was verified)';
  const ended = { ...told, by: 'rollback', outcome: 'installed', code: 'ok' };
  for (const render of [
    (reason: string) => renderHistory({ attempts: [{ ...ended, reason }], discarded: 0 }, page),
    (reason: string) => renderStory({ ...ended, reason }, page),
  ]) {
    expect(render(doubt).replaceAll(/\s+/g, ' ')).toContain(`${doubt} a manual rollback`);
    expect(render('went back to what was installed before')).not.toContain('what was installed');
    expect(render('installed').match(/installed/g)).toHaveLength(1);
  }
});

// Regression: "failed", "rollback started" and "rolled back" for an update that never booted.
test('an update that an operator cancelled before it booted was discarded', () => {
  const at = told.startedAt;
  const cancelled = { ...told, outcome: 'failed', code: 'cancelled', reason: 'an operator cancelled it' };
  const steps = [
    { at, step: 'staging-started', detail: 'slot B' },
    { at, step: 'rollback-started', detail: 'an operator cancelled it (cancelled)' },
    { at, step: 'rolled-back' },
  ];
  const text = renderStory({ ...cancelled, steps }, page).replaceAll(/\s+/g, ' ');
  expect(text).toContain('1.4.0 to 1.5.0: cancelled after');
  expect(text).toMatch(/ started: target slot B .* discarding: an operator .* discarded \(cancelled\) $/);
});

// Regression: "transfer started: slot A" and "failed" for a release that was refused by its header.
test.each([
  [[], 'refused, before anything was written (not-signed)'],
  [['slot-opened'], 'refused (not-signed)'],
])('a refused release after the steps %j ends with: %s', (before, end) => {
  const steps = [...before, 'failed'].map((step) => ({ at: told.startedAt, step }));
  const text = renderStory({ ...told, outcome: 'refused', code: 'not-signed', steps }, page);
  expect(text.trimEnd().endsWith(` ${end}`)).toBe(true);
});

// Regression: seven steps of one attempt, all of the same minute.
test('steps have seconds', () => {
  expect(renderStory(told, page)).toContain('2026-12-01 10:00:01 +00:00  writing started: gateway');
});

// Regression: "1.5.0 to trust-1: installed", while 1.5.0 was running.
test('a trust list took effect, and no version was installed; an older record has no number', () => {
  const reason = 'a list of keys and revocations took effect';
  const steps = [{ at: told.startedAt, step: 'trust-list-applied' }];
  const taken = { ...told, version: 'trust-1', outcome: 'installed', code: 'ok', reason, steps, reusedBytes: 0 };
  const text = (attempt: typeof taken & { readonly trustList?: number }): string =>
    renderHistory({ attempts: [attempt], discarded: 0 }, page).replaceAll(/\s+/g, ' ');
  expect(text({ ...taken, trustList: 1 })).toContain(
    '+00:00 (2 h ago) trust list 1: in effect after 3 min 20 s assigned by the service;',
  );
  expect(text(taken)).toContain(
    '+00:00 (2 h ago) trust list trust-1: in effect after 3 min 20 s assigned by the service',
  );
});

test('a current attempt is shown as such, and so is one with an unknown end', () => {
  const { outcome: _outcome, durationSeconds: _took, ...open } = told;
  const text = renderHistory({ attempts: [open, { ...open, inProgress: true }], discarded: 0 }, page);
  expect(text).toMatch(/unknown\s+result[^]*in progress, or\s+interrupted/);
});

test('no attempt can steer the terminal', () => {
  fc.assert(
    fc.property(anyText, anyText, (one, other) => {
      const attempt = { ...told, attempt: one, version: other, reason: one, by: other };
      const step = { at: one, step: other, detail: one };
      expect(steering(renderHistory({ attempts: [attempt], discarded: 0 }, page))).toEqual([]);
      expect(steering(renderStory({ ...attempt, steps: [step] }, page))).toEqual([]);
    }),
  );
});
