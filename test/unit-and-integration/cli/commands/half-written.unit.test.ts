import { describe, expect, test } from 'vitest';

import { InterruptedError, listenForInterruption } from '../../../../src/cli/interruption.ts';
import { renderBoards, renderStatus } from '../../../../src/cli/screen/pages/render-rows.ts';
import type { BoardReport } from '../../../../src/control/api/board-report.ts';
import type { OnEvent } from '../../../../src/control/events.ts';
import type { StatusReport } from '../../../../src/control/reports.ts';
import { type } from '../fake-context.ts';
import type { FakeWorld } from '../fake-context.ts';
import { calmStatus, ConductedOperation, fakeAgent, troubledStatus } from '../fake-operations.ts';
import { rowOf } from '../row-of.ts';

const page = { columns: 400, nowMs: Date.parse('2026-03-01T12:00:00.000Z'), localOffset: () => 60, paint: plain };

function plain(_tone: unknown, text: string): string {
  return text;
}

const [known] = troubledStatus.boards;
if (known === undefined) throw new Error('no board');
const half: BoardReport = {
  ...known,
  connected: true,
  writing: { name: 'meter-3.hex', since: '2026-03-01T11:00:00.000Z', restorable: true },
};

describe('a partially flashed board', () => {
  test('is the first line of status', () => {
    const text = renderStatus({ ...calmStatus, boards: [half] }, page);
    expect(rowOf('State', text)).toBe('gateway-1.4.2 is running. meter is partially flashed and may have no program.');
    expect(text).toContain('agent mcu flash meter FILE, or agent mcu restore meter');
  });

  // Regression: status showed only the check in six hours, while the write was finished in a minute.
  test('shows when it is finished, before the next check', () => {
    const times = { nextCheckAt: '2026-03-01T18:00:00.000Z', retryAt: '2026-03-01T12:01:00.000Z' };
    const checks = { consecutiveFailures: 0, retryAt: times.retryAt };
    const text = renderStatus({ ...calmStatus, boards: [half], nextCheckAt: times.nextCheckAt, checks }, page);
    expect(text.replaceAll(/\s+/g, ' ')).toMatch(
      /Next check interrupted work is finished 2026-03-01 13:01 \+01:00 \(in 1 min\),? 2026-03-01 19:00 \+01:00 \(in 6 h\)/,
    );
  });

  test('is listed with its remedies', () => {
    expect(renderBoards([half], page)).toMatch(
      /being written since .*\(meter-3\.hex\).*agent mcu flash meter FILE, or agent mcu restore meter for the previous image/,
    );
  });

  test('has no backup to restore, if none is stored', () => {
    const bare = { ...half, writing: { name: 'an image', since: undefined, restorable: false } };
    expect(renderBoards([bare], page)).not.toContain('mcu restore');
  });
});

describe('the first line of status during an operation', () => {
  const flashing = { process: 'the daemon', operation: 'flash', board: 'meter', phase: 'flashing' } as const;

  test.each<[Partial<StatusReport>, string]>([
    [{ activity: { ...flashing, doneBytes: 1024, totalBytes: 4096 } }, 'Busy: flashing meter: 25% of 4.0 KiB.'],
    [
      { activity: { process: 'agent mcu flash meter (process 7)' } },
      'Busy: agent mcu flash meter (process 7) is running.',
    ],
    [
      {
        phase: 'staging',
        idleReason: '2 is being written to slot B',
        activity: {
          process: 'the daemon',
          operation: 'update',
          phase: 'staging',
          doneBytes: 3 << 20,
          totalBytes: 9 << 20,
          leftMs: 40_000,
        },
      },
      '2 is being written to slot B: 33% of 9.0 MiB, 40 s left.',
    ],
    [
      { phase: 'trial', activity: { process: 'the daemon', operation: 'update', phase: 'health' } },
      'It is committed if its health checks pass, else rolled back to gateway-1.4.1.',
    ],
    [
      { phase: 'staging', idleReason: 'it was interrupted', downloaded: { bytes: 2 << 20, totalBytes: 37 << 20 } },
      'It was interrupted at 5%.',
    ],
  ])('with %j is: %s', (change, told) => {
    expect(rowOf('State', renderStatus({ ...calmStatus, ...change }, page))).toBe(`gateway-1.4.2 is running. ${told}`);
  });
});

/** A flash operation in this process, with answers to Ctrl-C. */
class Flash {
  readonly operation = new ConductedOperation();
  readonly controller = new AbortController();
  asksInstead: () => boolean = () => false;

  begin(boards: readonly BoardReport[], line = 'mcu flash meter meter-3.hex'): ReturnType<typeof type> {
    const run = (_: unknown, onEvent: OnEvent, signal: AbortSignal) => this.operation.run(onEvent, signal);
    const alone = fakeAgent({ flash: run, update: run, boards: async () => ({ boards }) });
    const guard: FakeWorld['guard'] = (asks) => {
      this.asksInstead = asks;
      return { [Symbol.dispose]: () => {} };
    };
    return type(line.split(' '), { alone, guard, signal: this.controller.signal });
  }

  async step(step: string): Promise<void> {
    const tell = await this.operation.begun;
    tell({ kind: 'board', board: 'meter', step, doneBytes: 0, totalBytes: 10 });
  }
}

describe('Ctrl-C while this process writes a board', () => {
  test('asks for confirmation the first time, and ends it the second time', async () => {
    const flash = new Flash();
    const ending = flash.begin([half]);
    await flash.step('keeping');
    expect(flash.asksInstead()).toBe(false);
    await flash.step('writing');
    expect(flash.asksInstead()).toBe(true);
    expect(flash.asksInstead()).toBe(false);
    flash.controller.abort(new InterruptedError('SIGINT'));
    const { exitCode, err } = await ending;
    expect(exitCode).toBe(130);
    expect(err).toContain('agent: meter is being flashed; press Ctrl-C again to leave it partially flashed');
    expect(err).toContain(
      'agent: interrupted; partially flashed and without a program: meter\n       agent mcu flash meter FILE, or agent mcu restore',
    );
  });

  test('tells a program which board was left', async () => {
    const flash = new Flash();
    const ending = flash.begin([half], '--update-now --json');
    await flash.step('writing');
    flash.controller.abort(new InterruptedError('SIGINT'));
    expect((await ending).out.trim().split('\n').at(-1)).toBe(
      '{"kind":"interrupted","goesOn":false,"halfWritten":["meter"]}',
    );
  });
});

test('who listens for interruptions asks first where a guard wants it, but not at SIGTERM', () => {
  const listeners = new Map<string, () => void>();
  const fake = {
    on: (name: string, listener: () => void) => listeners.set(name, listener),
    off: (name: string) => listeners.delete(name),
    exit: () => {},
  };
  using interruption = listenForInterruption(fake);
  {
    using _guard = interruption.guard(() => true);
    listeners.get('SIGINT')?.();
    expect(interruption.signal.aborted).toBe(false);
  }
  listeners.get('SIGINT')?.();
  expect(interruption.signal.aborted).toBe(true);
  using second = listenForInterruption(fake);
  using _guard = second.guard(() => true);
  listeners.get('SIGTERM')?.();
  expect(second.signal.aborted).toBe(true);
});
