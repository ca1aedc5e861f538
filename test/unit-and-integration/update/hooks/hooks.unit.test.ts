import { describe, expect, test } from 'vitest';

import { ProgramError } from '../../../../src/system/processes/child-process.ts';
import type { ProgramTerms, ProgramResult } from '../../../../src/system/processes/child-process.ts';
import { hookInput, Hooks } from '../../../../src/update/hooks/hooks.ts';
import type { HookSubject } from '../../../../src/update/hooks/hooks.ts';
import { ManualClock } from '../../../fakes/clock.ts';

const { signal } = new AbortController();
const attempt = { id: 'attempt-1', by: 'service', version: { id: '2', name: 'two' } } as const;
const about: HookSubject = { attempt, slot: 'B', installed: undefined };

/** A hook whose answers are given. */
class Rig {
  readonly clock = new ManualClock();
  readonly asked: ProgramTerms[] = [];
  answer: ProgramResult | Error = { exitCode: 0, stdout: '', stderr: '' };
  readonly hooks = new Hooks(
    {
      before_install: { command: ['ask'], user: 'app', timeoutMs: 5_000 },
      after_rollback: { command: ['tell'], user: undefined, timeoutMs: 5_000 },
    },
    {
      clock: this.clock,
      run: async (_command, options) => {
        this.asked.push(options);
        if (this.answer instanceof Error) throw this.answer;
        return this.answer;
      },
    },
  );

  says(exitCode: number | undefined, stderr = ''): void {
    this.answer = { exitCode, stdout: 'not heard', stderr };
  }

  /** The thrown error. */
  async ask(how: 'ask' | 'askInTurn' = 'ask', asking = about): Promise<unknown> {
    return this.hooks[how]('before_install', asking, signal).then(
      () => undefined,
      (error: unknown) => error,
    );
  }
}

describe('a hook', () => {
  test('receives its subject as JSON on one line', async () => {
    const rig = new Rig();
    await rig.ask();
    const [{ input = '', user, timeoutMs } = {}] = rig.asked;
    expect({ user, timeoutMs }).toEqual({ user: 'app', timeoutMs: 5_000 });
    expect(input).toMatch(/^[^\n]*\n$/);
    expect(hookInput.parse(JSON.parse(input))).toEqual({
      format: 1,
      hook: 'before_install',
      attempt: 'attempt-1',
      by: 'service',
      version: { id: '2', name: 'two' },
      slot: 'B',
    });
  });

  test.each([
    [1, 'the press\n is  running\n', 'hook-rejected', 'before_install rejects (exit code 1): the press is running'],
    [75, '', 'hook-deferred', 'before_install defers'],
    [75, 'see http://me:word@app/?k=1', 'hook-deferred', 'before_install defers: see http://********@app/?********'],
    [undefined, '', 'hook-deferred', 'before_install was ended by a signal'],
  ])('that ends with %s and %j is told as %s: %s', async (exitCode, stderr, code, message) => {
    const rig = new Rig();
    rig.says(exitCode, stderr);
    expect(await rig.ask()).toMatchObject({ code, message });
  });

  test('is called again later if it cannot run', async () => {
    const rig = new Rig();
    rig.answer = new ProgramError('program-timeout', 'ask', 'no end within 5000 ms');
    expect(await rig.ask()).toMatchObject({
      code: 'hook-deferred',
      message: expect.stringContaining('no end') as unknown,
    });
  });

  test('gets its long output truncated', async () => {
    const rig = new Rig();
    rig.says(1, 'x'.repeat(60_000));
    expect(String(await rig.ask()).length).toBeLessThan(500);
  });

  test('that is not configured consents', async () => {
    const rig = new Rig();
    rig.says(1);
    await rig.hooks.ask('before_reboot', about, signal);
    expect(rig.asked).toEqual([]);
  });
});

describe('a notification hook', () => {
  const owed = { hook: 'after_rollback', attempt: 'attempt-1', by: 'service', slot: 'B' } as const;
  const left = { ...owed, version: { name: 'two' }, code: 'unhealthy', reason: 'app.service is dead' };

  test('receives the reason for abandoning a version; its failure is reported until the next success', async () => {
    const rig = new Rig();
    expect(rig.hooks.wants('after_commit')).toBe(false);
    rig.says(75, 'no disk');
    const trouble = 'after_rollback of two failed (exit code 75): no disk';
    expect(await rig.hooks.tell(left, undefined, signal)).toBe(trouble);
    expect(rig.hooks.trouble).toBe(trouble);
    expect(rig.hooks.pause).toBeUndefined();
    rig.says(0);
    expect(await rig.hooks.tell({ ...left, attempt: 'attempt-2' }, undefined, signal)).toBeUndefined();
    expect(rig.hooks.trouble).toBeUndefined();
    expect(JSON.parse(rig.asked[0]?.input ?? '')).toEqual({ format: 1, ...left });
  });
});

test('is notified once of an attempt, although the journal may be unwritable', async () => {
  const rig = new Rig();
  const owed = { hook: 'after_rollback', attempt: '1', by: 'service', version: { name: 'two' }, slot: 'B' } as const;
  for (let round = 0; round < 3; round += 1) await rig.hooks.tell(owed, undefined, signal);
  expect(rig.asked).toHaveLength(1);
});

describe('after "not now"', () => {
  // The service could have the hook asked at each check, under ever new ids for the same content.
  test('pauses for the same content under another id, and for no other content', async () => {
    const rig = new Rig();
    const under = (id: string, digest: string): HookSubject => {
      const version = { id, name: 'two' };
      return { ...about, attempt: { ...attempt, version }, digest };
    };
    rig.says(75);
    await rig.ask('askInTurn', under('2', 'sha256:d'));
    await rig.ask('askInTurn', under('3', 'sha256:d'));
    expect(rig.asked).toHaveLength(1);
    await rig.ask('askInTurn', under('3', 'sha256:e'));
    expect(rig.asked).toHaveLength(2);
  });

  test('the schedule calls it again after intervals that grow to an hour, and reports the same reason until then', async () => {
    const rig = new Rig();
    rig.says(75, 'busy');
    const pausesMs: (number | undefined)[] = [];
    for (let refusals = 0; refusals < 8; refusals += 1) {
      const before = rig.asked.length;
      expect(await rig.ask('askInTurn')).toMatchObject({
        code: 'hook-deferred',
        message: 'before_install defers: busy',
      });
      expect(rig.asked).toHaveLength(before + 1);
      const { leftMs = 0 } = rig.hooks.pause ?? {};
      pausesMs.push(leftMs / 60_000);
      rig.clock.advance(leftMs - 1);
      expect(await rig.ask('askInTurn')).toMatchObject({
        code: 'hook-deferred',
        message: 'before_install defers: busy',
      });
      expect(rig.asked).toHaveLength(before + 1);
      rig.clock.advance(1);
    }
    expect(pausesMs).toEqual([1, 2, 4, 8, 16, 32, 60, 60]);
  });

  test('an operator’s request and another version call it immediately; consent ends the intervals', async () => {
    const rig = new Rig();
    rig.says(75);
    await rig.ask('askInTurn');
    await rig.ask('ask');
    await rig.ask('askInTurn', { ...about, attempt: { ...attempt, version: { id: '3', name: 'three' } } });
    expect(rig.asked).toHaveLength(3);
    expect(rig.hooks.pause?.leftMs).toBe(60_000);
    rig.says(0);
    await rig.ask();
    expect(rig.hooks.pause).toBeUndefined();
  });
});
