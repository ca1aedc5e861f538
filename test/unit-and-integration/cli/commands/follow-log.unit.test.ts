import { describe, expect, test } from 'vitest';

import { parseArguments } from '../../../../src/cli/arguments/parse-arguments.ts';
import { InterruptedError } from '../../../../src/cli/interruption.ts';
import { runCommand } from '../../../../src/cli/run.ts';
import type { HistoryReport } from '../../../../src/control/history.ts';
import { fakeContext, stoppedClock } from '../fake-context.ts';
import type { FakeWorld } from '../fake-context.ts';
import { calmStatus, fakeAgent } from '../fake-operations.ts';

type Attempt = HistoryReport['attempts'][number];

const step = (name: string, second: number): Attempt['steps'][number] => ({
  at: `2026-03-01T12:00:0${second}.000Z`,
  step: name,
});
const running: Attempt = { attempt: 'a1b2', version: '2', by: 'service', steps: [step('staging-started', 1)] };
const ended: Attempt = { ...running, outcome: 'installed', steps: [...running.steps, step('committed', 2)] };

/** Types a command that repeats; at each pause the next reading is due, and after the last one comes Ctrl-C. */
async function typeUntilInterrupted(args: readonly string[], pauses: number, world: FakeWorld) {
  const controller = new AbortController();
  let left = pauses;
  const clock = {
    ...stoppedClock,
    sleep: async (_ms: number, signal: AbortSignal): Promise<void> => {
      left -= 1;
      if (left < 0) controller.abort(new InterruptedError('SIGINT'));
      signal.throwIfAborted();
    },
  };
  const context = fakeContext({ clock, signal: controller.signal, ...world });
  const exitCode = await runCommand(parseArguments(args), context);
  return { exitCode, out: context.out.text, err: context.err.text };
}

/** Returns one value after the other, and the last one again. */
function inTurn<T>(...values: readonly [T, ...T[]]): () => Promise<T> {
  let at = -1;
  return async () => {
    at = Math.min(at + 1, values.length - 1);
    return values[at] ?? values[0];
  };
}

describe('agent log --follow', () => {
  const reportOf = (attempt: Attempt): HistoryReport => ({ attempts: [attempt], discarded: 0 });
  const reports = [reportOf(running), reportOf(ended)] as const;

  test('prints each step once, and then the result, until Ctrl-C, which is a success', async () => {
    const daemon = fakeAgent({ history: inTurn(...reports) });
    const { exitCode, out, err } = await typeUntilInterrupted(['log', '--follow'], 3, { daemon });
    expect({ exitCode, err }).toEqual({ exitCode: 0, err: '' });
    expect(out.match(/staging started/g)).toHaveLength(1);
    expect(out.match(/committed/g)).toHaveLength(1);
    expect(out.match(/^Result/gm)).toHaveLength(1);
    expect(out.indexOf('committed')).toBeLessThan(out.indexOf('Result'));
  });

  test('ends with a named attempt', async () => {
    const daemon = fakeAgent({ history: inTurn(...reports) });
    const { exitCode, out } = await typeUntilInterrupted(['log', 'a1', '--follow', '--json'], 9, { daemon });
    expect(exitCode).toBe(0);
    expect(
      out
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as { step?: string }).step),
    ).toEqual(['staging-started', 'committed', undefined]);
  });

  test('prints only new security events', async () => {
    const event = { id: 'access-denied', at: '2026-03-01T12:00:00.000Z', lastAt: '2026-03-01T12:00:00.000Z', count: 1 };
    const events = [
      { ...event, number: 1, detail: 'caller 1' },
      { ...event, number: 2, detail: 'caller 2' },
    ];
    const daemon = fakeAgent({
      securityLog: inTurn({ events: events.slice(0, 1), discarded: 0 }, { events, discarded: 0 }),
    });
    const { out } = await typeUntilInterrupted(['log', '--security', '--follow'], 3, { daemon });
    expect(out.match(/caller 1/g)).toHaveLength(1);
    expect(out.match(/caller 2/g)).toHaveLength(1);
  });

  test('stops when its output has no reader', async () => {
    const out = fakeContext().out;
    out.isOpen = false;
    const context = { ...fakeContext({ daemon: fakeAgent() }), out };
    expect(await runCommand(parseArguments(['log', '--follow']), context)).toBe(0);
  });
});

test('agent log without an id shows the last attempt', async () => {
  const daemon = fakeAgent({
    history: async () => ({ attempts: [{ ...running, attempt: 'old' }, ended], discarded: 0 }),
  });
  const context = fakeContext({ daemon });
  expect(await runCommand(parseArguments(['log']), context)).toBe(0);
  expect(context.out.text).toContain('a1b2');
  const none = fakeContext({ daemon: fakeAgent() });
  expect(await runCommand(parseArguments(['log']), none)).toBe(0);
  expect(none.out.text).toBe('No update attempts yet.\n');
});

describe('agent status --watch', () => {
  const busy = { ...calmStatus, idleReason: '2 is deferred: x', idleCode: 'outside-window' } as const;

  test('prints the status again when more than its times changed, and ends at Ctrl-C with success', async () => {
    const later = { ...calmStatus, nextCheckAt: '2026-03-01T12:30:00.000Z' };
    const daemon = fakeAgent({ status: inTurn(calmStatus, later, busy) });
    const { exitCode, out, err } = await typeUntilInterrupted(['status', '--watch'], 4, { daemon });
    expect({ exitCode, err }).toEqual({ exitCode: 0, err: '' });
    expect(out.match(/^State/gm)).toHaveLength(2);
    expect(out).toContain('2 is deferred');
  });

  // Regression: `agent status --watch | head` did not end, since nothing was written to the closed pipe.
  test('prints an unchanged status again after a minute, and so notices that its reader has left', async () => {
    const { out } = await typeUntilInterrupted(['status', '--watch'], 61, { daemon: fakeAgent() });
    expect(out.match(/^State/gm)).toHaveLength(2);
  });

  test('redraws in place on a terminal, and shows the first rows that fit', async () => {
    const world = { daemon: fakeAgent(), columns: 80 };
    const { out } = await typeUntilInterrupted(['status', '--watch'], 1, world);
    expect(out.split('\u001B[H\u001B[J')).toHaveLength(3);
  });

  test('prints a line of JSON for each reading', async () => {
    const { out } = await typeUntilInterrupted(['status', '--watch', '--json'], 2, { daemon: fakeAgent() });
    expect(
      out
        .trim()
        .split('\n')
        .map((line) => Object.keys(JSON.parse(line) as object)[0]),
    ).toEqual(['running', 'running', 'running']);
  });
});

describe('agent rollback on a terminal', () => {
  const answering = (answer: string, asked: string[] = []) => ({
    isInteractive: true,
    person: () => ({
      ask: async (question: string) => {
        asked.push(question);
        return answer;
      },
      [Symbol.dispose]: () => {},
    }),
  });

  test.each([
    ['y', 0, ['status', 'rollback']],
    ['', 77, ['status']],
    ['n', 77, ['status']],
  ])('asks first: after %j the exit code is %i', async (answer, exitCode, calls) => {
    const asked: string[] = [];
    const daemon = fakeAgent();
    const context = fakeContext({ daemon, ...answering(answer, asked) });
    expect(await runCommand(parseArguments(['rollback']), context)).toBe(exitCode);
    expect(daemon.calls.map(([name]) => name)).toEqual(calls);
    expect(asked).toEqual(['Roll back to gateway-1.4.1? The gateway may reboot. [y/N]']);
  });

  test('does not ask with --yes, nor without a terminal', async () => {
    for (const [args, world] of [
      [['rollback', '--yes'], answering('n')],
      [['rollback'], {}],
    ] as const) {
      const daemon = fakeAgent();
      expect(await runCommand(parseArguments(args), fakeContext({ daemon, ...world }))).toBe(0);
      expect(daemon.calls.map(([name]) => name)).toEqual(['rollback']);
    }
  });
});

test('agent install reports that the file was not installed if an earlier trial is abandoned instead', async () => {
  const outcome = { kind: 'rebooting', version: '1', slot: 'A', goesBack: true } as const;
  const context = fakeContext({ daemon: fakeAgent({ install: async () => outcome }) });
  expect(await runCommand(parseArguments(['install', '2.mender']), context)).toBe(70);
  expect(context.err.text).toContain('The file was not installed: after the reboot, run the same command again.');
});

test.each(['needs-attention', 'on-trial', 'busy', 'broken', '77', '0', '130'])(
  'agent explain knows %s',
  async (code) => {
    const context = fakeContext();
    expect(await runCommand(parseArguments(['explain', code]), context)).toBe(0);
    expect(context.out.text).toContain('What to do:');
  },
);
