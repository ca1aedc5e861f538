import { expect, test } from 'vitest';

import { parseArguments } from '../../../../src/cli/arguments/parse-arguments.ts';
import { runCommand } from '../../../../src/cli/run.ts';
import { renderStatus } from '../../../../src/cli/screen/pages/render-rows.ts';
import { fakeContext, noon } from '../fake-context.ts';
import { calmStatus, fakeAgent } from '../fake-operations.ts';
import { rowOf } from '../row-of.ts';

async function type(...args: readonly string[]) {
  const agent = fakeAgent();
  const context = fakeContext({ daemon: agent });
  const exitCode = await runCommand(parseArguments(args), context);
  return { exitCode, calls: agent.calls, out: context.out.text, err: context.err.text };
}

test('agent hold accepts a duration and a reason, and prints its end; agent resume releases it', async () => {
  expect(await type('hold', '4h', '--reason', 'harvest')).toMatchObject({
    exitCode: 0,
    calls: [['hold', { durationMs: 4 * 3_600_000, reason: 'harvest' }]],
    out: 'Updates are on hold until 2026-03-01 17:00 +01:00 (in 4 h): harvest.\n',
  });
  expect(await type('hold')).toMatchObject({ exitCode: 0, calls: [['hold', {}]] });
  expect(await type('resume')).toMatchObject({ exitCode: 0, calls: [['resume', {}]] });
  const wrong = await type('hold', 'soon');
  expect(wrong).toMatchObject({ exitCode: 64, calls: [] });
  expect(wrong.err).toContain('not a duration such as 30m, 4h or 2d');
});

// Regression: "durationMs: Too big: expected number to be <=31622400000".
test('a hold that is too long is refused with the longest one', async () => {
  const { exitCode, calls, err } = await type('hold', '1000d');
  expect({ exitCode, calls }).toEqual({ exitCode: 64, calls: [] });
  expect(err).toContain('1000d is too long: at most 366d');
  expect(await type('hold', '366d')).toMatchObject({
    exitCode: 0,
    calls: [['hold', { durationMs: 366 * 86_400_000 }]],
  });
});

test('status shows a hold with its end, its reason and the command that releases it', () => {
  const hold = { since: '2026-03-01T11:00:00.000Z', until: '2026-03-01T16:00:00.000Z', reason: 'harvest' };
  const page = { columns: 200, paint: (_tone: unknown, text: string) => text, nowMs: noon, localOffset: () => 60 };
  const text = renderStatus({ ...calmStatus, hold }, page);
  expect(rowOf('State', text)).toBe(
    'gateway-1.4.2 is running. Updates are on hold until 2026-03-01 17:00 +01:00 (in 4 h): harvest.',
  );
  expect(rowOf('To do', text)).toBe('wait, or resume updates: agent resume');
  expect(rowOf('Hold', text)).toBe('');
});

// Regression: `agent hold 4h`, then `agent status` during staging: "lift it before that", without its end.
test('shows the end of a hold in other states, too', () => {
  const hold = { since: '2026-03-01T11:00:00.000Z', until: '2026-03-01T16:00:00.000Z' };
  const page = { columns: 200, paint: (_tone: unknown, text: string) => text, nowMs: noon, localOffset: () => 60 };
  const text = renderStatus({ ...calmStatus, state: 'staged', phase: 'staged', hold }, page);
  expect(rowOf('Hold', text)).toBe(
    'updates are on hold until 2026-03-01 17:00 +01:00 (in 4 h); to resume them: agent resume',
  );
});
